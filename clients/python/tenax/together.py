# SPDX-License-Identifier: Apache-2.0
"""What comes up while a request is under way travels with the next one.

Nobody waits who is alone, and each caller has an answer or an error of its own.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from .errors import ApiError, ConnectionFailed, ForeignAnswer

if TYPE_CHECKING:
    from .client import Client

MOST = 1000  # in one request
BYTES_MOST = 512 * 1024  # below what servers and proxies take
SLOW = 1.0  # seconds after which a request is not waited for any more


class Call:
    """What a thread has to say, and what it hears."""

    def __init__(self, path: str, content: bytes, id: str = ""):
        self.path = path  # of a request of its own
        self.content = content  # of that
        self.id = id
        self.turn = threading.Event()  # it is over, or this thread is to send the next request
        self.taken = False  # a request has it
        self.over = False  # with one of these, or else it is to be sent by itself:
        self.answer: Any = None
        self.error: Optional[Exception] = None

    def settle(self, answer: Any = None, error: Optional[Exception] = None) -> None:
        self.answer, self.error, self.over = answer, error, True
        self.turn.set()


class Together:
    """The threads that call it send each other's calls: ``go(calls)`` sends several and settles each.

    Of one process: after a fork those that wait, or have the lock, are the parent's.
    """

    def __init__(self, alone: Callable[[Call], Any], go: Callable[[List[Call]], None]):
        self._alone, self._go = alone, go
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: List[Call] = []
        self._sender: Optional[Call] = None  # whose thread sends the request that is waited for

    def send(self, call: Call) -> Any:
        with self._lock:
            self._waiting.append(call)
            calls = [] if self._sender else self._take(call)
        self._send(call, calls)
        while not call.over:
            call.turn.wait(None if call.taken else SLOW)
            with self._lock:
                call.turn.clear()
                calls = [] if call.taken else self._take(call)
            self._send(call, calls)
        if call.error:
            raise call.error
        return self._alone(call) if call.answer is None else call.answer

    def _take(self, sender: Call) -> List[Call]:
        self._sender = sender
        count = size = 0
        for call in self._waiting[:MOST]:
            size += len(call.content)
            if count and size > BYTES_MOST:
                break
            count += 1
        calls, self._waiting = self._waiting[:count], self._waiting[count:]
        for call in calls:
            call.taken = True
        return calls

    def _send(self, sender: Call, calls: List[Call]) -> None:
        if not calls:
            return
        try:
            if len(calls) == 1:
                calls[0].settle(self._alone(calls[0]) or {})
            else:
                self._go(calls)
        except BaseException as e:  # each has to hear of it
            broken = e if isinstance(e, Exception) else ConnectionFailed("it was interrupted", sent=True)
            for call in calls:
                if not call.over:
                    call.settle(error=broken)
            if broken is not e:
                raise
        finally:
            with self._lock:
                if self._sender is sender:
                    self._sender = self._waiting[0] if self._waiting else None
                    if self._sender:
                        self._sender.turn.set()


def is_list(answers: Any, calls: List[Call]) -> bool:
    return (isinstance(answers, list) and len(answers) == len(calls)
            and all(isinstance(answer, dict) and answer.get("id") == call.id
                    for answer, call in zip(answers, calls)))


def is_of_one(error: Exception) -> bool:
    """Whether the fault may be of one of many, of which each has to hear by itself."""
    return isinstance(error, ApiError) and error.status < 500 and error.status not in (401, 408, 429)


class Reports:
    """Reports of runs: alone by a request of its own, several by POST /jobs/reports."""

    def __init__(self, client: "Client"):
        self._client = client
        self._here = Together(self._alone, self._go)
        self._known = True  # to the server

    def send(self, id: str, outcome: str, content: bytes) -> Any:
        """The answer to the report; ``content`` is its JSON, an object with a token at least."""
        call = Call(f"/jobs/{id}/{outcome}", content, id)
        # Of a release that is repeated, as its answer was lost, the server says that its run is over.
        if outcome == "release" or not self._known:
            return self._alone(call)
        if self._here.process != os.getpid():
            self._here = Together(self._alone, self._go)
        return self._here.send(call)

    def _alone(self, call: Call) -> Any:
        return self._client._send("POST", call.path, call.content, timeout=10, retry_for=0)

    def _go(self, calls: List[Call]) -> None:
        try:
            answers = self._many(calls)
        except (ApiError, ConnectionFailed) as e:
            if isinstance(e, ApiError) and e.code in ("no_such_path", "method_not_allowed"):
                self._known = False
            # Some proxies do not know the path.
            if not is_of_one(e) and not isinstance(e, ForeignAnswer):
                raise
            answers = [{"code": "to be sent by itself"}] * len(calls)
        # Whatever was refused hears why by a request of its own.
        for call, answer in zip(calls, answers):
            call.settle(None if "code" in answer else answer)

    def _many(self, calls: List[Call]) -> List[Any]:
        reports = [b'{"id":"%b","outcome":"%b",%b' % (
            call.id.encode(), call.path.rsplit("/", 1)[-1].encode(), call.content[1:])
            for call in calls]
        try:
            answer = self._client._send("POST", "/jobs/reports", b'{"reports":[%b]}' % b",".join(reports),
                                        member="reports", timeout=10, retry_for=0)
        except ApiError as e:
            # 422 with a list: some were refused.
            if not (isinstance(e.body, dict) and "reports" in e.body):
                raise
            answer = e.body
        if not is_list(answer["reports"], calls):
            raise ForeignAnswer("POST", "/jobs/reports", 200)
        return answer["reports"]


# Members of jobs that have nothing to do with those of others, which might refuse or change all of a bulk.
PLAIN = frozenset(("queue", "type", "payload", "priority", "ready_at", "retry_limit", "backoff", "retention",
                   "deadline", "retain_until", "max_run_ms", "retry_for_ms", "annotations",
                   "traceparent", "tracestate"))


class Enqueues:
    """Enqueues of plain jobs: alone by POST /jobs, several by POST /jobs/bulk."""

    def __init__(self, enqueue: Callable[[str, bytes], Any]):
        self._enqueue = enqueue  # sends one request
        self._here = Together(self._alone, self._go)
        self._answered = True  # a bulk, by Tenax

    def send(self, content: bytes) -> Any:
        """The job as it was added; ``content`` is its JSON."""
        call = Call("/jobs", content)
        if not self._answered:
            return self._alone(call)
        if self._here.process != os.getpid():
            self._here = Together(self._alone, self._go)
        return self._here.send(call)

    def _alone(self, call: Call) -> Any:
        return self._enqueue(call.path, call.content)

    def _go(self, calls: List[Call]) -> None:
        try:
            content = b'{"jobs":[%b]}' % b",".join(call.content for call in calls)
            jobs = self._enqueue("/jobs/bulk", content)["jobs"]
            if not isinstance(jobs, list) or len(jobs) != len(calls):
                raise ForeignAnswer("POST", "/jobs/bulk", 200)
        except (ApiError, ConnectionFailed) as e:
            if isinstance(e, ForeignAnswer):
                self._answered = False  # nobody knows what became of these
            if not is_of_one(e):
                raise
            jobs = [None] * len(calls)
        for call, job in zip(calls, jobs):
            call.settle(job)
