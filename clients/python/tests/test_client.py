# SPDX-License-Identifier: Apache-2.0
"""Requests, against the server of TENAX_URL, which is behind a proxy that loses answers."""

import datetime
import os
import socket
import tempfile
import threading
import time
import unittest
from unittest import mock

import tenax

SECURE = os.environ["TEST_SECURE_URL"]
CA = os.environ["TEST_CA_CERT"]
TOKEN_FILE = os.environ["TEST_TOKEN_FILE"]


class Requests(unittest.TestCase):
    def setUp(self):
        self.client = tenax.Client()
        self.addCleanup(self.client.close)

    def drop(self, path, count=1):
        self.client.request("POST", "/proxy/drop", {"path": path, "count": count})

    def test_options_reach_the_server(self):
        later = datetime.datetime(2100, 1, 2, tzinfo=datetime.timezone.utc)
        job = self.client.enqueue("options", "t", {"a": [1, "ü", None]}, priority=7,
                                  ready_at=later, retry_limit=3, alias="options-1",
                                  backoff={"base_ms": 1, "exponent": 2, "jitter_ms": 3},
                                  unique_key=None)
        self.assertFalse(job["duplicate"])
        got = self.client.job(job["id"])
        self.assertEqual(got["payload"], {"a": [1, "ü", None]})
        self.assertEqual((got["priority"], got["retry_limit"], got["alias"], got["status"]),
                         (7, 3, "options-1", "scheduled"))
        self.assertEqual(got["ready_at"], 4102531200000)
        self.assertEqual(got["backoff"], {"base_ms": 1, "exponent": 2, "jitter_ms": 3})
        self.assertNotIn("unique_key", got)
        self.assertEqual(self.client.job("alias:options-1", runs=True)["runs"], [])

    def test_a_unique_key_finds_the_job_that_is_there(self):
        first = self.client.enqueue("unique", "t", unique_key="k")
        again = self.client.enqueue("unique", "t", unique_key="k")
        self.assertEqual((again["duplicate"], again["id"]), (True, first["id"]))

    def test_bulk_is_all_or_none(self):
        jobs = self.client.enqueue_bulk({"queue": "bulk", "type": "t", "payload": n}
                                        for n in range(3))
        self.assertEqual([self.client.job(job["id"])["payload"] for job in jobs], [0, 1, 2])
        with self.assertRaises(tenax.BadRequest) as caught:
            self.client.enqueue_bulk([{"queue": "bulk", "type": "t"},
                                      {"queue": "bulk", "type": "t", "priority": -1}])
        self.assertEqual((caught.exception.status, caught.exception.code, caught.exception.where),
                         (400, "bad_value", "jobs[1].priority"))
        self.assertGreater(caught.exception.offset, 0)
        self.assertEqual(self.client.request("GET", "/jobs/count?queue=bulk")["count"], 3)

    def test_errors_have_types(self):
        client = self.client
        id = client.enqueue("errors", "t")["id"]
        for kind, status, code, ask in [
                (tenax.NotFound, 404, "not_found",
                 lambda: client.job("03fr82s077azjmurys29qjch4")),
                (tenax.BadRequest, 400, "bad_name", lambda: client.enqueue("a,b", "t")),
                (tenax.Unprocessable, 422, "unprocessable",
                 lambda: client.enqueue("errors", "t", depends_on=["03fr82s077azjmurys29qjch4"])),
                (tenax.NotFound, 404, "not_in_flight",
                 lambda: client.request("POST", f"/jobs/{id}/success", {})),
                (tenax.Conflict, 409, "conflict",
                 lambda: client.request("POST", "/queues", {"name": "errors-q"}) and
                 client.request("POST", "/queues", {"name": "errors-q"}))]:
            with self.subTest(code=code), self.assertRaises(kind) as caught:
                ask()
            self.assertEqual((caught.exception.status, caught.exception.code), (status, code))
            self.assertIn(code, str(caught.exception))

    def test_what_is_not_json_is_refused_before_it_is_sent(self):
        with self.assertRaises(ValueError):
            self.client.enqueue("nan", "t", float("nan"))

    def test_an_option_that_is_misspelt_is_refused(self):
        for wrong, right in (("readyAt", "ready_at"), ("retry_limt", "retry_limit")):
            with self.assertRaisesRegex(tenax.BadRequest, f"did you mean '{right}'"):
                self.client.enqueue("misspelt", "t", **{wrong: 1})
        self.assertEqual(self.client.request("GET", "/jobs/count?queue=misspelt")["count"], 0)

    def test_a_time_in_seconds_is_refused(self):
        for name in ("ready_at", "deadline", "retain_until"):
            with self.assertRaisesRegex(ValueError, f"{name} is in milliseconds"):
                self.client.enqueue("seconds", "t", **{name: time.time() + 3600})
        self.client.enqueue("seconds", "t", ready_at=1)

    def test_an_alias_may_have_any_character(self):
        for alias in ("tenant/42", "ada@example.org", "a:b+c.d"):
            id = self.client.enqueue("aliases", "t", alias=alias)["id"]
            self.assertEqual(self.client.job(f"alias:{alias}")["id"], id)

    def test_children_have_connections_of_their_own(self):
        self.client.enqueue("fork", "parent")
        children = []
        for n in range(4):
            children.append(os.fork())
            if not children[-1]:
                made = [self.client.enqueue("fork", f"child-{n}") for _ in range(20)]
                os._exit(sum(job["type"] != f"child-{n}" for job in made))
        own = [self.client.enqueue("fork", "parent")["type"] for _ in range(20)]
        self.assertEqual([os.waitpid(child, 0)[1] for child in children], [0] * 4)
        self.assertEqual(set(own), {"parent"})

    def test_a_token_file_is_read_again_when_its_token_is_refused(self):
        with tempfile.NamedTemporaryFile("w") as file, open(TOKEN_FILE) as good:
            file.write("tx_" + "0" * 40)
            file.flush()
            with tenax.Client(SECURE, ca_cert=CA, token_file=file.name) as client:
                with self.assertRaises(tenax.Unauthorized):
                    client.enqueue("secure", "t")
                file.seek(0)
                file.write(good.read())
                file.truncate()
                file.flush()
                statuses = []
                threads = [threading.Thread(target=lambda: statuses.append(
                    client.enqueue("secure", "t")["status"])) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(statuses, ["ready"] * 8)

    def test_an_enqueue_whose_answer_is_lost_is_repeated_and_adds_one_job(self):
        self.drop("/jobs", 2)
        self.assertFalse(self.client.enqueue("once", "t")["duplicate"])
        self.drop("/jobs/bulk")
        self.client.enqueue_bulk([{"queue": "once", "type": "t"}])
        self.assertEqual(self.client.request("GET", "/jobs/count?queue=once")["count"], 2)

    def test_an_idempotency_key_may_be_given(self):
        jobs = [self.client.enqueue("key", "t", 1, idempotency_key="python-1") for _ in range(2)]
        self.assertEqual(jobs[0], jobs[1])
        with self.assertRaises(tenax.Unprocessable) as caught:
            self.client.enqueue("key", "t", 2, idempotency_key="python-1")
        self.assertEqual(caught.exception.code, "idempotency_key_reused")

    def test_without_keys_an_enqueue_is_not_repeated_blindly(self):
        client = tenax.Client(idempotent=False)
        self.drop("/jobs")
        with self.assertRaises(tenax.ConnectionFailed) as caught:
            client.enqueue("lost", "t")
        self.assertTrue(caught.exception.sent)
        self.assertEqual(client.request("GET", "/jobs/count?queue=lost")["count"], 1)
        client.close()

    def test_without_keys_what_the_server_recognises_is_repeated(self):
        client = tenax.Client(idempotent=False)
        self.drop("/jobs", 2)
        self.assertTrue(client.enqueue("again", "t", alias="again-1")["duplicate"])
        self.drop("/jobs/bulk")
        jobs = client.enqueue_bulk([{"queue": "again", "type": "t", "unique_key": "again-2",
                                     "unique_while": "exists"}])
        self.assertTrue(jobs[0]["duplicate"])
        self.assertEqual(client.request("GET", "/jobs/count?queue=again")["count"], 2)
        client.close()

    def test_what_was_not_done_is_repeated(self):
        self.client.request("POST", "/proxy/refuse", {"path": "/jobs", "count": 2, "status": 503,
                                                      "code": "busy"})
        self.assertFalse(self.client.enqueue("busy", "t")["duplicate"])

    def test_a_server_that_is_not_there_is_said_so(self):
        with socket.socket() as taken:  # bound, but not listening
            taken.bind(("127.0.0.1", 0))
            client = tenax.Client(f"http://127.0.0.1:{taken.getsockname()[1]}", retry_for=0.3)
            with self.assertRaises(tenax.ConnectionFailed) as caught:
                client.enqueue("nowhere", "t")
            self.assertFalse(caught.exception.sent)

    def test_the_scheme_may_be_left_out(self):
        with tenax.Client(os.environ["TENAX_URL"].replace("http://", "") + "/") as client:
            client.enqueue("bare", "t")
        for given, meant in (("example.org", "http://example.org:7890"), ("[::1]:1", "http://[::1]:1"),
                             ("localhost:1/prefix/", "http://localhost:1/prefix")):
            with tenax.Client(given) as client:
                self.assertEqual(client.url, meant)

    def test_a_url_is_checked(self):
        for url in ("ftp://localhost", "http:/localhost", "http//localhost", "localhost:", "::1", ":7890",
                    "localhost:x", "localhost:99999"):
            with self.assertRaisesRegex(tenax.TenaxError, "or localhost:7890"):
                tenax.Client(url)


class Secure(unittest.TestCase):
    """A server with TLS that asks for a token."""

    def test_with_a_ca_and_a_token_of_a_file(self):
        with tenax.Client(SECURE, ca_cert=CA, token_file=TOKEN_FILE) as client:
            client.enqueue("secure", "t")

    def test_as_the_environment_says(self):
        with open(TOKEN_FILE, encoding="ascii") as file:
            token = file.read().strip()
        for variables in ({"TENAX_TOKEN": token}, {"TENAX_TOKEN_FILE": TOKEN_FILE}):
            with mock.patch.dict(os.environ, {"TENAX_URL": SECURE, "TENAX_CA_CERT": CA,
                                              **variables}), tenax.Client() as client:
                client.enqueue("secure", "t")

    def test_without_the_ca_it_is_not_trusted(self):
        with tenax.Client(SECURE, token_file=TOKEN_FILE, retry_for=0) as client:
            with self.assertRaises(tenax.ConnectionFailed) as caught:
                client.enqueue("secure", "t")
        self.assertFalse(caught.exception.sent)

    def test_without_a_token_or_with_a_wrong_one(self):
        for token, code in ((None, "credentials_required"), ("tnx_wrong", "bad_credentials")):
            with tenax.Client(SECURE, ca_cert=CA, token=token) as client:
                with self.assertRaises(tenax.Unauthorized) as caught:
                    client.enqueue("secure", "t")
            self.assertEqual(caught.exception.code, code)

    def test_what_the_token_does_not_allow(self):
        with tenax.Client(SECURE, ca_cert=CA, token_file=TOKEN_FILE) as client:
            with self.assertRaises(tenax.Forbidden):
                client.request("GET", "/tokens")

    def test_a_token_that_is_none_is_not_quoted(self):
        with self.assertRaises(tenax.TenaxError) as caught:
            tenax.Client(SECURE, token="sec ret")
        self.assertNotIn("ret", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
