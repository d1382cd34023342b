# SPDX-License-Identifier: Apache-2.0
"""The worker's loop, against the server of TENAX_URL, which is behind a proxy that loses answers."""

import asyncio
import datetime
import logging
import os
import socket
import threading
import time
import unittest

import tenax

logging.getLogger("tenax").addHandler(logging.NullHandler())


class Working(unittest.TestCase):
    def setUp(self):
        self.client = tenax.Client()
        self.addCleanup(self.client.close)
        self.queue = self.id().rsplit(".", 1)[-1]

    def enqueue(self, type="t", payload=None, **options):
        return self.client.enqueue(self.queue, type, payload, **options)["id"]

    def drain(self, handler, **options):
        tenax.Worker(self.client, self.queue, handler, **options).run(drain=True)

    def get(self, id):
        return self.client.job(id, runs=True)

    def test_a_result_is_kept(self):
        ids = [self.enqueue(payload=n) for n in range(5)]
        self.drain(lambda job: {"twice": 2 * job.payload}, concurrency=3, name="w-results")
        for n, id in enumerate(ids):
            job = self.get(id)
            self.assertEqual((job["status"], job["result"]), ("completed", {"twice": 2 * n}))
            self.assertEqual(job["runs"][0]["worker"], "w-results")

    def test_handlers_run_side_by_side(self):
        for _ in range(3):
            self.enqueue()
        together = threading.Barrier(3, timeout=20)
        seen = []
        self.drain(lambda job: seen.append(together.wait()), concurrency=3)
        self.assertEqual(sorted(seen), [0, 1, 2])

    def test_a_run_takes_no_longer_than_it_may(self):
        ids = [self.enqueue(retry_limit=0, max_run_ms=500), self.enqueue("by its worker", retry_limit=0)]
        limits = []

        def wait(job):
            limits.append(job.max_run_ms)
            with self.assertRaises(tenax.LeaseLost):
                job.wait(60)
            self.assertTrue(job.lost)
            job.check()

        self.drain(wait, max_run=0.6, lease=1.0)
        self.assertEqual(limits, [500, 600])
        for id in ids:
            job = self.get(id)
            while job["status"] == "in_flight":
                job = self.get(id)
            self.assertEqual((job["status"], job["runs"][0]["culprit"]), ("dead", "deadline"))

    def test_types_have_handlers(self):
        known, unknown = self.enqueue("known"), self.enqueue("unknown", retry_limit=0)
        self.drain({"known": lambda job: "done"})
        self.assertEqual(self.get(known)["result"], "done")
        self.assertEqual(self.get(unknown)["runs"][0]["error_type"], "NoHandler")

    def test_an_exception_is_a_failure(self):
        id = self.enqueue(payload={}, retry_limit=0)
        self.drain(lambda job: job.payload["missing"])
        job = self.get(id)
        self.assertEqual((job["status"], job["runs"][0]["error_type"]), ("dead", "KeyError"))
        self.assertGreaterEqual(job["runs"][0]["run_ms"], 0)
        error = self.client.request("GET", f"/jobs/{id}/errors")["errors"][0]
        self.assertIn("test_worker.py", error["backtrace"])

    def test_a_failure_says_what_is_known(self):
        def handler(job):
            raise tenax.Failure("no texture", error_type="TextureError", exit_code=75,
                                category="storage", subcategory="textures", backtrace="line 1",
                                termination_message="gone", kill=True)
        id = self.enqueue()
        self.drain(handler)
        job = self.get(id)
        run = job["runs"][0]
        self.assertEqual(job["status"], "dead")
        self.assertEqual([run[name] for name in ("message", "error_type", "exit_code", "category",
                                                 "subcategory", "termination_message")],
                         ["no texture", "TextureError", 75, "storage", "textures", "gone"])

    def test_a_failure_says_when_to_try_again(self):
        later = datetime.datetime(2100, 1, 2, tzinfo=datetime.timezone.utc)

        def handler(job):
            raise tenax.Failure("come back later", retry_at=later)
        id = self.enqueue(retry_limit=0)
        self.drain(handler)
        job = self.get(id)
        self.assertEqual((job["status"], job["ready_at"]), ("scheduled", 4102531200000))

    def test_an_exit_is_a_failure_with_its_code(self):
        def handler(job):
            raise SystemExit(3)
        id = self.enqueue(retry_limit=0)
        self.drain(handler)
        self.assertEqual(self.get(id)["runs"][0]["exit_code"], 3)

    def test_a_checkpoint_is_handed_to_the_next_run(self):
        seen = []

        def handler(job):
            seen.append((job.run, job.attempts, job.checkpoint))
            if job.run == 0:
                job.progress(0.4, "page 40")
                self.assertEqual(self.client.job(job.id)["progress"]["value"], 0.4)
                job.save({"page": 40})
                raise tenax.Failure("half way", retry_at=1)
            return job.checkpoint["page"]
        id = self.enqueue()
        self.drain(handler)
        self.assertEqual(seen, [(0, 0, None), (1, 1, {"page": 40})])
        self.assertEqual(self.get(id)["result"], 40)

    def test_a_job_that_is_given_back_has_not_failed(self):
        def handler(job):
            if job.run == 0:
                raise tenax.GiveBack()
        id = self.enqueue()
        self.drain(handler)
        job = self.get(id)
        self.assertEqual((job["status"], job["attempts"]), ("completed", 0))
        self.assertEqual([run["outcome"] for run in job["runs"]], ["returned", "completed"])

    def test_a_job_may_be_given_back_for_later(self):
        later = datetime.datetime(2100, 1, 2, tzinfo=datetime.timezone.utc)

        def handler(job):
            raise tenax.GiveBack("no disk", ready_at=later)
        id = self.enqueue()
        self.drain(handler)
        job = self.get(id)
        self.assertEqual((job["status"], job["ready_at"], job["attempts"]),
                         ("scheduled", 4102531200000, 0))
        self.assertIn("gave it back: no disk", job["runs"][0]["reason"])

    def test_a_time_that_is_refused_does_not_keep_a_job_from_its_queue(self):
        def handler(job):
            if job.run == 0:
                raise tenax.GiveBack(ready_at="soon")
        id = self.enqueue()
        self.drain(handler, lease=600)
        self.assertEqual([run["outcome"] for run in self.get(id)["runs"]],
                         ["returned", "completed"])

    def test_a_trace_goes_on(self):
        trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        seen = []

        def handler(job):
            seen.append((job.traceparent, job.tracestate))
            if job.type == "first":
                self.enqueue("second", traceparent=job.traceparent)
        self.enqueue("first", traceparent=trace, tracestate="a=1")
        self.drain(handler)
        self.assertEqual(seen, [(trace, "a=1"), (trace, None)])

    def test_a_report_whose_answer_is_lost_is_repeated(self):
        good, bad = self.enqueue(), self.enqueue(payload="bad", retry_limit=0)
        for id, verb in ((good, "success"), (bad, "failure")):
            self.client.request("POST", "/proxy/drop", {"path": f"/jobs/{id}/{verb}", "count": 2})

        def handler(job):
            if job.payload == "bad":
                raise ValueError("bad")
            return 1
        self.drain(handler)
        self.assertEqual([self.get(good)["result"], len(self.get(good)["runs"])], [1, 1])
        self.assertEqual([self.get(bad)["status"], self.get(bad)["attempts"]], ["dead", 1])

    def test_a_claim_whose_answer_is_lost_is_asked_again(self):
        ids = [self.enqueue(retry_limit=0), self.enqueue(retry_limit=0)]
        self.client.request("POST", "/proxy/drop", {"path": "/jobs/claim", "count": 2})
        self.drain(lambda job: None, concurrency=2)
        for job in map(self.get, ids):
            self.assertEqual((job["status"], job["attempts"], len(job["runs"])),
                             ("completed", 0, 1))

    def test_a_result_that_cannot_be_kept_leaves_the_job_done(self):
        class Odd(dict):
            def items(self):
                raise RuntimeError("not this one")

        circle = []
        circle.append(circle)
        results = [datetime.datetime(2026, 1, 2), b"bytes", {1, 2}, float("nan"), "\ud800", circle,
                   Odd(a=1), "x" * 70000, [[]] * 40000]
        ids = [self.enqueue(payload=i, retry_limit=3) for i in range(len(results))]
        with self.assertLogs("tenax.worker", "WARNING") as said:
            self.drain(lambda job: results[job.payload])
        for id in ids:
            job = self.get(id)
            self.assertEqual((job["status"], len(job["runs"])), ("completed", 1))
            self.assertTrue(job["result"]["result_omitted"])
            self.assertEqual(sum(id in line for line in said.output), 1)

    def test_a_handler_may_be_a_coroutine(self):
        id = self.enqueue(payload=3)

        async def handler(job):
            await asyncio.sleep(0.01)
            return job.payload * 2
        self.drain(handler)
        self.assertEqual(self.get(id)["result"], 6)

    def test_a_failure_is_logged(self):
        id = self.enqueue("charge", retry_limit=0)
        with self.assertLogs("tenax.worker", "WARNING") as said:
            self.drain(lambda job: [][0])
        self.assertRegex(said.output[0], f"{id} .charge. failed: list index out of range")

    def test_a_failure_whose_members_are_refused_is_known_by_its_words(self):
        id = self.enqueue(retry_limit=0)

        def handler(job):
            raise tenax.Failure("no texture", retryAt=1)
        self.drain(handler)
        self.assertRegex(self.get(id)["runs"][0]["message"], "no texture .*did you mean 'retry_at'")

    def test_a_failure_with_a_time_in_seconds_is_known_without_it(self):
        id = self.enqueue(retry_limit=0)

        def handler(job):
            raise tenax.Failure("no texture", retry_at=time.time() + 60)
        self.drain(handler)
        self.assertRegex(self.get(id)["runs"][0]["message"], "no texture .retry_at is in milliseconds")

    def test_a_job_that_is_given_back_again_comes_after_a_pause_that_doubles(self):
        id = self.enqueue()

        def handler(job):
            raise tenax.GiveBack("not now")
        for _ in range(3):
            self.drain(handler)  # until it waits
            job = self.get(id)
            last = job["runs"][-1]
            self.assertEqual(job["ready_at"] - last["ended_at"], 100 * 2 ** (len(job["runs"]) - 2))
            self.client.request("PATCH", f"/jobs/{id}", {"ready_at": None})
        self.assertEqual(job["attempts"], 0)

    def test_a_job_may_be_given_back_for_a_while(self):
        id = self.enqueue()

        def handler(job):
            raise tenax.GiveBack(delay=3600)
        self.drain(handler)
        job = self.get(id)
        self.assertEqual((job["status"], job["ready_at"] - job["runs"][0]["ended_at"]),
                         ("scheduled", 3600000))

    def test_a_worker_has_the_name_of_its_process(self):
        worker = tenax.Worker(self.client, self.queue, print)
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.write(writer, worker.name.encode())
            os._exit(0)
        os.waitpid(child, 0)
        self.assertEqual(os.read(reader, 1000).decode(), f"{socket.gethostname()}-{child}")
        self.assertNotEqual(worker.name, f"{socket.gethostname()}-{child}")
        os.close(reader)
        os.close(writer)

    def test_leases_are_renewed_by_one_request_for_all(self):
        for _ in range(4):
            self.enqueue()
        count = "/proxy/count?path=/jobs/renew"
        before = self.client.request("GET", count)["count"]
        begun = time.monotonic()
        self.drain(lambda job: time.sleep(9), concurrency=4, lease=6)
        ticks = (time.monotonic() - begun) / 2
        renewals = self.client.request("GET", count)["count"] - before
        self.assertTrue(3 <= renewals <= ticks + 1, f"{renewals} renewals")
        jobs = self.client.request("GET", f"/jobs?queue={self.queue}")["jobs"]
        for job in jobs:
            self.assertEqual([run["outcome"] for run in self.get(job["id"])["runs"]],
                             ["completed"])

    def test_a_handler_is_told_that_its_lease_is_lost(self):
        id = self.enqueue()
        told = []

        def handler(job):
            self.client.request("POST", f"/jobs/{job.id}/cancel")
            try:
                job.wait(30)
            except tenax.LeaseLost:
                told.append(job.lost)
                raise
        self.drain(handler, lease=0.6)
        self.assertEqual(told, [True])
        self.assertEqual(self.get(id)["resolution"], "canceled")

    def test_saving_tells_that_the_lease_is_lost(self):
        self.enqueue()
        told = []

        def handler(job):
            self.client.request("POST", f"/jobs/{job.id}/cancel")
            with self.assertRaises(tenax.LeaseLost):
                job.save(1)
            told.append(job.lost)
        self.drain(handler)
        self.assertEqual(told, [True])

    def test_stop_waits_for_handlers_within_the_grace(self):
        id = self.enqueue()
        begun = threading.Event()

        def handler(job):
            begun.set()
            while not job.stopping:
                time.sleep(0.01)
            return "in time"
        worker = tenax.Worker(self.client, self.queue, handler)
        thread = threading.Thread(target=worker.run)
        thread.start()
        self.assertTrue(begun.wait(20))
        worker.stop()
        thread.join(20)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.get(id)["result"], "in time")

    def test_a_claim_that_fails_is_asked_again(self):
        id = self.enqueue()
        for status in (503, 200, 500):  # the second is an answer without jobs in it
            self.client.request("POST", "/proxy/refuse", {"path": "/jobs/claim", "status": status})
        self.drain(lambda job: "done")
        self.assertEqual(self.get(id)["result"], "done")

    def test_a_claim_that_is_refused_ends_the_loop(self):
        with self.assertRaises(tenax.BadRequest):
            tenax.Worker(self.client, "not,a,name", lambda job: None).run(drain=True)


if __name__ == "__main__":
    unittest.main()
