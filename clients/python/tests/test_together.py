# SPDX-License-Identifier: Apache-2.0
"""What comes up while a request is under way goes with the next one."""

import json
import logging
import os
import queue
import threading
import unittest
from unittest import mock

import tenax
from tenax import together
from tenax.errors import api_error

logging.getLogger("tenax").addHandler(logging.NullHandler())


class Rig:
    """Requests that are answered when the test says so."""

    def __init__(self):
        self.asked = queue.Queue()
        self.reports = together.Reports(self)

    def _send(self, method, path, content, **options):
        answer = queue.Queue()
        self.asked.put((path, json.loads(content), answer))
        answer = answer.get(timeout=20)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def next(self):
        return self.asked.get(timeout=20)

    def send(self, id, outcome="success", **more):
        """In a thread of its own, which waits by now; what it hears comes by a queue."""
        heard = queue.Queue()

        def run():
            try:
                heard.put(self.reports.send(id, outcome, json.dumps({"token": "t" + id, **more}).encode()))
            except tenax.TenaxError as e:
                heard.put(e)

        waiting = self.waiting()
        threading.Thread(target=run, daemon=True).start()
        while self.waiting() == waiting and self.asked.empty():
            threading.Event().wait(0.001)
        return heard

    def waiting(self):
        with self.reports._here._lock:
            return len(self.reports._here._waiting)


def hear(heard):
    return heard.get(timeout=20)


class Reporting(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(together, "SLOW", 60)  # unless a test says otherwise
        patch.start()
        self.addCleanup(patch.stop)

    def two(self):
        """Three reports, of which two are under way together."""
        rig = Rig()
        a = rig.send("a")
        path, body, answer = rig.next()
        self.assertEqual((path, body), ("/jobs/a/success", {"token": "ta"}))
        b, c = rig.send("b"), rig.send("c")
        answer.put(None)
        self.assertEqual(hear(a), {})
        path, body, answer = rig.next()
        self.assertEqual(path, "/jobs/reports")
        self.assertEqual(body, {"reports": [{"id": "b", "outcome": "success", "token": "tb"},
                                            {"id": "c", "outcome": "success", "token": "tc"}]})
        return rig, answer, b, c

    def test_each_has_its_own_answer(self):
        _, answer, b, c = self.two()
        answer.put({"reports": [{"id": "b", "reason": "x"}, {"id": "c"}]})
        self.assertEqual((hear(b), hear(c)), ({"id": "b", "reason": "x"}, {"id": "c"}))

    def test_what_is_refused_hears_why_by_a_request_of_its_own(self):
        rig, answer, b, c = self.two()
        answer.put(api_error(422, {"code": "unprocessable", "error": "1 was refused", "reports": [
            {"id": "b", "code": "stale_token", "error": "over"}, {"id": "c"}]}))
        self.assertEqual(hear(c), {"id": "c"})
        path, _, answer = rig.next()
        self.assertEqual(path, "/jobs/b/success")
        answer.put(api_error(409, {"code": "stale_token", "error": "over"}))
        self.assertIsInstance(hear(b), tenax.StaleToken)

    def test_all_fail_if_there_is_no_answer(self):
        rig, answer, b, c = self.two()
        answer.put(tenax.ConnectionFailed("cut", sent=True))
        for heard in (b, c):
            self.assertIsInstance(hear(heard), tenax.ConnectionFailed)
        self.assertTrue(rig.asked.empty())

    def test_they_are_sent_one_by_one_if_all_are_refused_or_others_answer(self):
        for said in (api_error(400, {"code": "bad_value", "error": "reports[0]: no"}),
                     tenax.ForeignAnswer("POST", "/jobs/reports", 404),
                     {"reports": []}, {"reports": [{"id": "c"}, {"id": "b"}]}):
            rig, answer, b, c = self.two()
            answer.put(said)
            by_path = {path: answer for path, _, answer in (rig.next(), rig.next())}
            by_path["/jobs/b/success"].put(api_error(400, {"code": "bad_value", "error": "no"}))
            by_path["/jobs/c/success"].put({"reason": "mine"})
            self.assertIsInstance(hear(b), tenax.BadRequest)
            self.assertEqual(hear(c), {"reason": "mine"})

    def test_a_server_that_does_not_know_it_is_not_asked_again(self):
        for code in ("no_such_path", "method_not_allowed"):
            rig, answer, b, c = self.two()
            answer.put(api_error(404, {"code": code, "error": "no such path"}))
            for _ in range(2):
                rig.next()[2].put({})
            self.assertEqual((hear(b), hear(c)), ({}, {}))
            d, e = rig.send("d"), rig.send("e")
            self.assertEqual({rig.next()[0], rig.next()[0]}, {"/jobs/d/success", "/jobs/e/success"})

    def test_a_request_is_bounded_in_number_and_bytes(self):
        calls = [together.Call("/jobs/x/success", b"{}") for _ in range(1500)]
        calls += [together.Call("/jobs/x/success", b"x" * 200_000) for _ in range(5)]
        it = together.Together(None, None)
        it._waiting = calls
        self.assertEqual([len(it._take(calls[0])) for _ in range(5)], [1000, 502, 2, 1, 0])

    def test_a_release_goes_alone_and_waits_for_none(self):
        rig = Rig()
        rig.send("a")
        rig.next()
        rig.send("b", "release")
        self.assertEqual(rig.next()[0], "/jobs/b/release")

    def test_none_waits_for_a_request_that_hangs(self):
        together.SLOW = 0.05
        rig = Rig()
        rig.send("a")
        _, _, hanging = rig.next()
        b = rig.send("b")
        path, _, answer = rig.next()
        self.assertEqual(path, "/jobs/b/success")
        answer.put({})
        self.assertEqual(hear(b), {})
        c = rig.send("c")  # nobody waits for the one that hangs any more
        self.assertEqual(rig.next()[0], "/jobs/c/success")
        hanging.put({})

    def test_after_a_fork_nobody_waits_for_the_parents_requests(self):
        rig = Rig()
        rig.send("a")
        rig.next()
        child = os.fork()
        if child == 0:
            rig.reports._client = mock.Mock()
            rig.reports._client._send.return_value = {}
            os._exit(0 if rig.reports.send("b", "success", b'{"token":"t"}') == {} else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)


class Enqueueing(unittest.TestCase):
    def setUp(self):
        patch = mock.patch.object(together, "SLOW", 60)
        patch.start()
        self.addCleanup(patch.stop)

    def two(self):
        """Two enqueues that are under way together."""
        rig = Rig()
        enqueues = together.Enqueues(lambda path, content: rig._send("POST", path, content))
        rig.reports = enqueues  # by whose number of waiting calls it knows that one has come

        def send(content):
            with mock.patch.object(enqueues, "send", lambda *_: together.Enqueues.send(enqueues, content)):
                return rig.send("", "")

        send(b"1")
        path, body, answer = rig.next()
        self.assertEqual((path, body), ("/jobs", 1))
        b, c = send(b"2"), send(b"3")
        answer.put({"id": "a"})
        path, body, answer = rig.next()
        self.assertEqual((path, body), ("/jobs/bulk", {"jobs": [2, 3]}))
        return rig, answer, b, c

    def test_each_has_its_own_answer(self):
        _, answer, b, c = self.two()
        answer.put({"jobs": [{"id": "b"}, {"id": "c"}]})
        self.assertEqual((hear(b), hear(c)), ({"id": "b"}, {"id": "c"}))

    def test_each_has_its_own_error_if_all_are_refused(self):
        rig, answer, b, c = self.two()
        answer.put(api_error(400, {"code": "bad_value", "error": "jobs[0]: priority: no"}))
        by_body = {body: (path, answer) for path, body, answer in (rig.next(), rig.next())}
        self.assertEqual([by_body[2][0], by_body[3][0]], ["/jobs", "/jobs"])
        by_body[2][1].put(api_error(400, {"code": "bad_value", "error": "priority: no"}))
        by_body[3][1].put({"id": "c"})
        self.assertEqual(hear(b).where, "priority")
        self.assertEqual(hear(c), {"id": "c"})

    def test_they_are_not_sent_again_if_nobody_knows_what_became_of_them(self):
        for error in (tenax.ConnectionFailed("cut", sent=True), tenax.ForeignAnswer("POST", "/jobs/bulk", 502),
                      api_error(503, {"code": "store_failed", "error": "no"})):
            rig, answer, b, c = self.two()
            answer.put(error)
            self.assertEqual((hear(b), hear(c)), (error, error))
            self.assertTrue(rig.asked.empty())
            # Then bulks do not get through.
            self.assertEqual(rig.reports._answered, not isinstance(error, tenax.ForeignAnswer))

    def test_callers_in_threads_enqueue_together_and_each_job_is_there_once(self):
        client = tenax.Client()
        self.addCleanup(client.close)
        asked = "/proxy/count?path=/jobs/bulk"
        before = client.request("GET", asked)["count"]
        client.request("POST", "/proxy/drop", {"path": "/jobs/bulk", "count": 2})  # with the same key again
        added = {}

        def enqueue(n):
            try:
                added[n] = client.enqueue("callers", "t", n, priority=70000 if n % 30 == 29 else n)
            except tenax.BadRequest as e:
                added[n] = e.where

        threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((added.pop(29), added.pop(59)), ("priority", "priority"))
        for n, job in added.items():
            self.assertEqual((job["priority"], client.job(job["id"])["payload"]), (n, n))
        self.assertEqual(client.request("GET", "/jobs/count?queue=callers")["count"], 58)
        self.assertGreater(client.request("GET", asked)["count"], before)


class Working(unittest.TestCase):
    def test_each_of_many_jobs_has_its_own_outcome(self):
        client = tenax.Client()
        self.addCleanup(client.close)
        jobs = client.enqueue_bulk([{"queue": "together", "type": "t", "payload": n, "retry_limit": 0}
                                    for n in range(120)])
        client.request("POST", "/proxy/drop", {"path": "/jobs/reports", "count": 1})
        client.request("POST", "/proxy/foreign", {"path": "/jobs/reports", "status": 403})
        asked = "/proxy/count?path=/jobs/reports"
        before = client.request("GET", asked)["count"]

        def handle(job):
            job.progress(0.5)
            if job.payload % 4 == 1:
                raise tenax.Failure("odd", kill=True)
            if job.payload % 4 == 3:
                raise tenax.Failure("misspelt", retryAt=1)
            return {"n": job.payload} if job.payload % 4 == 0 else "x" * 70000

        tenax.Worker(client, "together", handle, concurrency=60).run(drain=True)
        for n, job in enumerate(client.job(job["id"], runs=True) for job in jobs):
            self.assertEqual(len(job["runs"]), 1)
            if n % 4 == 0:
                self.assertEqual((job["status"], job["result"]), ("completed", {"n": n}))
            elif n % 4 == 2:
                self.assertIn("at most", job["result"]["result_omitted"])
            else:
                self.assertEqual(job["status"], "dead")
        self.assertIn("did you mean 'retry_at'", job["runs"][0]["message"])
        reports = client.request("GET", asked)["count"] - before
        self.assertTrue(3 <= reports < 240, f"{reports} requests")
