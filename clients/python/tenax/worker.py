# SPDX-License-Identifier: Apache-2.0
"""The loop of a worker: claims jobs, runs handlers, renews leases, reports."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import queue as queues_module
import signal
import socket
import threading
import time
import traceback
import uuid
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Union
from urllib.parse import quote

from .client import BACKOFF_MAX, Client, backoff, encode, milliseconds
from .errors import (ApiError, ConnectionFailed, Failure, ForeignAnswer, GiveBack, LeaseLost,
                     NotFound, StaleToken, TenaxError)
from .job import GONE, Job

Handler = Callable[[Job], Any]

log = logging.getLogger("tenax.worker")

CLAIM_MAX = 1000  # jobs that one claim may ask for
CLAIM_GRACE = 2.0  # seconds for the answer to a claim that was withdrawn
FOREIGN_PAUSE_MAX = 15.0  # seconds between claims that something in between answers
RETURN_PAUSE_MAX = 60.0  # seconds before a job that is given back again and again


def return_pause(job: Job) -> float:
    """Seconds after which a job that is given back without a time may come again."""
    before = job.run - job.attempts  # runs that were no failures
    return min(RETURN_PAUSE_MAX, 0.1 * 2 ** min(before - 1, 20)) if before > 0 else 0.0


def is_note(result: Any) -> bool:
    """Whether there is no result, or one that says why there is none."""
    return result is None or (isinstance(result, dict) and list(result) == ["result_omitted"])


async def finish(awaitable: Any) -> Any:
    return await awaitable


def is_final(error: Exception) -> bool:
    """Whether the server would refuse again."""
    return (isinstance(error, ApiError) and error.status < 500
            and error.status not in (408, 429))


class Worker:
    """Runs a handler for each job of some queues, ``concurrency`` of them at a time in threads.

    ``handler`` is a function, or a mapping from types to functions, which may be ``async``: each run
    has a thread, and an event loop, of its own. What it returns (JSON of at most 64 KiB) is the job's
    result; what cannot be kept is replaced by a note. Failure, GiveBack or any other exception says
    how else the run ended.

    ``lease`` (seconds) is how long the server waits for a renewal before it gives the job to
    another worker; one request renews all leases after every third of it. ``grace`` (seconds) is
    how long handlers may go on when the worker ends. ``name`` is on record with every run. Jobs
    that must avoid ``node`` are left to others. ``max_run`` (seconds) is how long a run may take; a
    shorter limit of the job or its queue counts. After that the job is lost, and its lease is not
    renewed any more; a handler that goes on nevertheless keeps its place in ``concurrency``.
    """

    def __init__(self, client: Client, queues: Union[str, Iterable[str]],
                 handler: Union[Handler, Mapping[str, Handler]], *, concurrency: int = 1,
                 lease: float = 30.0, grace: float = 30.0, wait: float = 10.0,
                 max_run: Optional[float] = None, name: Optional[str] = None, node: Optional[str] = None):
        if not 1 <= concurrency <= 10000:
            raise ValueError("concurrency must be from 1 to 10000")
        self.client = client
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        self.concurrency = concurrency
        self.lease = lease
        self.grace = grace
        self.wait = wait
        self.max_run = max_run
        self._name = name
        self.node = node or os.environ.get("TENAX_NODE") or None
        self._handler = handler
        # Only put() of a SimpleQueue may be called by a signal handler, so all news come by it.
        self._news: "queues_module.SimpleQueue[tuple]" = queues_module.SimpleQueue()
        self._runs: Dict[str, Job] = {}  # by token, until what became of them is reported
        self._lock = threading.Lock()
        self._closed = threading.Event()

    # --- for whoever runs it ---

    @property
    def name(self) -> str:
        """As given, or host and process, which may have been forked since."""
        return self._name or f"{socket.gethostname()}-{os.getpid()}"

    def run(self, *, drain: bool = False) -> None:
        """Works until it is told to stop; with ``drain`` until no job is ready and none runs.

        In the main thread SIGTERM and SIGINT stop it: nothing more is claimed, handlers may go on
        for ``grace`` seconds, and what is not done then is given back. A second signal ends the
        wait. Raises ApiError if the server refuses to hand out jobs.
        """
        before = self._catch_signals()
        renewer = threading.Thread(target=self._renew_all, name="tenax-renew", daemon=True)
        self._closed.clear()
        renewer.start()
        try:
            _Loop(self, drain).run()
        finally:
            self._closed.set()
            for number, action in before.items():
                signal.signal(number, action)

    def stop(self) -> None:
        """Has ``run`` return as SIGTERM does; a second call ends the wait. From any thread."""
        self._news.put(("stop",))

    def _catch_signals(self) -> Dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {number: signal.signal(number, lambda *_: self.stop())
                for number in (signal.SIGTERM, signal.SIGINT)}

    # --- leases ---

    def _held(self) -> List[Job]:
        with self._lock:
            return [job for job in self._runs.values() if not job.lost]

    def _renew_all(self) -> None:
        tries, due = 0, self.lease / 3
        while not self._closed.wait(due):
            held = self._held()
            now = time.monotonic()
            for job in held:
                if job._lease_end <= now:
                    self._lose(job, "its lease ran out while the server did not answer")
            held = [job for job in held if not job.lost]
            try:
                if held:
                    self._renew(held, now)
                # A job that is claimed meanwhile has its full lease.
                tries, due = 0, self.lease / 3
            except Exception as e:  # whatever it is, the leases must not be forgotten
                log.warning("leases cannot be renewed: %s",
                            e if isinstance(e, TenaxError) else repr(e))
                due = backoff(tries)
                tries += 1

    def _renew(self, held: List[Job], sent: float) -> None:
        body = {"lease_ms": round(self.lease * 1000),
                "jobs": [{"id": job.id, "token": job.data["token"]} for job in held]}
        try:
            answer = self.client._ask("POST", "/jobs/renew", body, member="jobs",
                                      timeout=max(1.0, self.lease / 3), retry_for=0)
        except ApiError as e:
            # 422 with a list: some were not renewed.
            if not (isinstance(e.body, dict) and "jobs" in e.body):
                raise
            answer = e.body
        for job, renewed in zip(held, answer["jobs"]):
            if "lease_expires_at" in renewed:
                job._lease_end = sent + self.lease
            elif renewed.get("code") in GONE:
                self._lose(job, renewed.get("error", "the run is over"))

    def _lose(self, job: Job, why: str) -> None:
        # Once a report is under way its answer counts, not that of a renewal which came later.
        if not job._concluded and not job.lost:
            log.warning("job %s is lost: %s", job.id, why)
            job._lose()

    # --- runs ---

    def _begin(self, data: Dict[str, Any]) -> Job:
        job = Job(self.client, data, self.lease)
        with self._lock:
            self._runs[data["token"]] = job
        if job.max_run_ms:
            job._limit = threading.Timer(job.max_run_ms / 1000, self._overrun, (job,))
            job._limit.daemon = True
            job._limit.start()
        return job

    def _overrun(self, job: Job) -> None:
        """The server ends the run by itself, and would refuse a report of it."""
        self._lose(job, f"it took longer than its max_run_ms, {job.max_run_ms}; "
                        "its handler should have ended by now")

    def _work(self, job: Job) -> None:
        """The thread of a run."""
        try:
            verb, body = self._outcome(job)
            if verb and not job.lost and job._conclude():
                self._report(job, verb, body)
        finally:
            self._forget(job)
            self._news.put(("ended", job))

    def _forget(self, job: Job) -> None:
        with self._lock:
            self._runs.pop(job.data["token"], None)
        if job._limit:
            job._limit.cancel()

    def _outcome(self, job: Job) -> tuple:
        """The verb of the report and its members; no verb: there is nothing to report."""
        try:
            result = self._find_handler(job)(job)
            if inspect.isawaitable(result):
                result = asyncio.run(finish(result))
            return "success", {} if result is None else {"result": self._storable(job, result)}
        except GiveBack as e:
            return "release", self._returned(job, e)
        except LeaseLost:
            return None, {}
        except Failure as e:
            members = dict(e.members)
            if members["backtrace"] is None and e.__cause__:
                members["backtrace"] = trace(e.__cause__)
            return "failure", self._failure(job, members)
        except BaseException as e:  # SystemExit, too: it ends the run, not the worker
            members = {"message": str(e) or type(e).__name__, "error_type": type(e).__qualname__,
                       "backtrace": trace(e)}
            if isinstance(e, SystemExit) and isinstance(e.code, int):
                members["exit_code"] = e.code
            return "failure", self._failure(job, members)

    def _storable(self, job: Job, result: Any) -> Any:
        """The result, or a note in its place: the work is done, and must not be done again for it."""
        try:
            encode(result)
            return result
        except Exception as e:  # whatever an object of the handler's raises
            return self._omitted(job, e)

    def _omitted(self, job: Job, error: Exception) -> Dict[str, str]:
        log.warning("job %s (%s) has succeeded, but its result is not kept: %s", job.id, job.type, error)
        return {"result_omitted": str(error)[:1000] or type(error).__name__}

    def _returned(self, job: Job, back: GiveBack) -> Dict[str, Any]:
        told: Dict[str, Any] = {"message": back.message} if back.message else {}
        pause = 0.0 if job.stopping else return_pause(job)
        try:
            if back.ready_at is not None:
                return {**told, "ready_at": milliseconds("ready_at", back.ready_at)}
            if back.delay is not None:
                pause = max(0.0, float(back.delay))
        except (TypeError, ValueError, OverflowError) as e:
            log.warning("job %s (%s) is given back, but not for later: %s", job.id, job.type, e)
        return {**told, "delay_ms": round(pause * 1000)} if pause else told

    def _find_handler(self, job: Job) -> Handler:
        if callable(self._handler):
            return self._handler
        found = self._handler.get(job.type)
        if found is None:
            raise Failure(f"this worker has no handler for the type {job.type}",
                          error_type="NoHandler")
        return found

    def _failure(self, job: Job, members: Dict[str, Any]) -> Dict[str, Any]:
        told = {"run_ms": round((time.monotonic() - job._started) * 1000)}
        for name, value in members.items():
            try:
                if value is not None:
                    told[name] = milliseconds(name, value)
            except ValueError as e:  # a time that is none
                told["message"] = f"{members['message']} ({e})"
        return told

    def _report(self, job: Job, verb: str, body: Dict[str, Any]) -> None:
        """Reports until there is an answer, or the lease is over. The same may be said twice."""
        tries = 0
        while True:
            try:
                answer = job._post(verb, body)
                if verb == "failure" and isinstance(answer, dict):
                    log.warning("job %s (%s) failed: %s (%s)", job.id, job.type, body.get("message"),
                                answer.get("reason"))
                return
            except (StaleToken, NotFound) as e:
                log.warning("job %s: the run was over when it was reported%s: %s", job.id,
                            "; an earlier try may have arrived" if tries else "", e)
                return
            except (ApiError, ConnectionFailed) as e:
                if is_final(e):
                    return self._refused(job, verb, body, e)
                error: Exception = e
            except (TypeError, ValueError, RecursionError) as e:  # what has no JSON
                return self._refused(job, verb, body, e)
            if tries and job._lease_end <= time.monotonic():
                log.warning("job %s: its lease ran out before the report: %s", job.id, error)
                return
            log.warning("job %s: the report of its %s is sent again: %s", job.id, verb, error)
            time.sleep(backoff(tries))
            tries += 1

    def _refused(self, job: Job, verb: str, body: Dict[str, Any], error: Exception) -> None:
        """A report that the server does not take becomes one of the same kind that it can take."""
        if verb == "success" and not is_note(body.get("result")):
            return self._report(job, verb, {"result": self._omitted(job, error)})
        log.error("job %s: the report of its %s is refused: %s", job.id, verb, error)
        if verb == "release" and not body:
            return
        if verb == "release":  # better than when the lease is over
            pause = 0.0 if job.stopping else return_pause(job)
            return self._report(job, verb, {"delay_ms": round(pause * 1000)} if pause else {})
        message = f"the report was refused: {error}"
        if verb == "failure":  # what is not known by its members is known by its words
            message = f"{body.get('message')} ({message})"
        try:
            self.client.request("POST", f"/jobs/{job.id}/failure", {
                "token": job.data["token"], "message": message[:4000],
                "error_type": "ReportRefused"}, repeat=True)
        except (TenaxError, ValueError) as e:
            log.error("job %s: nor is that: %s", job.id, e)

    def _give_back(self, job: Job) -> None:
        """From a thread of its own; the handler may still be running, but is not heard any more."""
        self._report(job, "release", {})
        self._forget(job)
        self._news.put(("returned", job))

    # --- claims ---

    def _claim(self, count: int, wait: float, claim_id: str) -> None:
        """The thread of a claim."""
        body = {"queues": self.queues, "count": min(count, CLAIM_MAX), "worker": self.name,
                "lease_ms": round(self.lease * 1000), "wait_ms": round(wait * 1000),
                "claim_id": claim_id}
        if self.node:
            body["node"] = self.node
        if self.max_run is not None:
            body["max_run_ms"] = round(self.max_run * 1000)
        try:
            answer = self.client._ask("POST", "/jobs/claim", body, member="jobs",
                                      timeout=wait + 15, retry_for=0)
            self._news.put(("claimed", [self._begin(data) for data in answer["jobs"]]))
        except Exception as e:  # also an answer that is none: the loop waits for this
            self._news.put(("refused", e))

    def _withdraw(self) -> None:
        try:
            self.client.request("DELETE", f"/jobs/claim?worker={quote(self.name, safe='')}",
                                timeout=CLAIM_GRACE, retry_for=0)
        except TenaxError as e:
            log.warning("the claim cannot be withdrawn: %s", e)


class _Loop:
    """One call of Worker.run, in its thread; all else tells it what happened."""

    def __init__(self, worker: Worker, drain: bool):
        self.worker = worker
        self.drain = drain
        self.running: Dict[str, Job] = {}  # by token: handlers that have not returned
        self.claiming = False
        self.claim_id = ""  # of the last claim, if it had no answer: the next one repeats it
        self.idle = False  # the last claim got nothing
        self.tries = 0
        self.claim_at = 0.0
        self.stops = 0
        self.stop_at = 0.0
        self.withdraw_at = self.claim_end = 0.0
        self.returning: Dict[str, Job] = {}
        self.left: Dict[str, Job] = {}  # whose handlers are not waited for any more
        self.error: Optional[Exception] = None

    def run(self) -> None:
        while not self.done():
            self.begin_claim()
            try:
                news = self.worker._news.get(timeout=self.pause())
            except queues_module.Empty:
                news = None
            if news:
                getattr(self, "on_" + news[0])(*news[1:])
            if self.stops:
                self.end_handlers()
        if self.error:
            raise self.error

    def done(self) -> bool:
        if self.stops > 2:
            return True
        if self.claiming or self.returning:
            return False
        if self.stops:
            return self.running.keys() <= self.left.keys()
        return self.drain and self.idle and not self.running

    def pause(self) -> float:
        if self.stops:
            return 0.05
        if not self.claiming and len(self.running) < self.worker.concurrency:
            return max(0.001, self.claim_at - time.monotonic())
        return 3600.0

    def begin_claim(self) -> None:
        free = self.worker.concurrency - len(self.running)
        if self.stops or self.claiming or free <= 0 or time.monotonic() < self.claim_at:
            return
        if self.drain and self.idle and self.running:
            self.claim_at = time.monotonic() + 3600  # until one of them has ended
            return
        self.claim(free, 0.0 if self.drain else self.worker.wait)

    def claim(self, count: int, wait: float) -> None:
        self.claiming = True
        self.claim_id = self.claim_id or uuid.uuid4().hex
        threading.Thread(target=self.worker._claim, daemon=True, name="tenax-claim",
                         args=(count, wait, self.claim_id)).start()

    def on_claimed(self, jobs: List[Job]) -> None:
        self.claiming = False
        self.claim_id = ""
        self.tries, self.claim_at = 0, 0.0
        self.idle = not jobs
        for job in jobs:
            if self.stops:
                self.give_back(job)
                continue
            self.running[job.data["token"]] = job
            threading.Thread(target=self.worker._work, args=(job,), daemon=True,
                             name=f"tenax-{job.id}").start()

    def on_refused(self, error: Exception) -> None:
        self.claiming = False
        if self.stops:
            return
        if is_final(error):
            self.error, self.claim_id = error, ""
            self.on_stop()
            return
        log.warning("no jobs for now: %s", error if isinstance(error, TenaxError) else repr(error))
        most = FOREIGN_PAUSE_MAX if isinstance(error, ForeignAnswer) else BACKOFF_MAX
        self.claim_at = time.monotonic() + backoff(self.tries, most)
        self.tries += 1

    def on_ended(self, job: Job) -> None:
        self.running.pop(job.data["token"], None)
        self.idle = False
        if not self.tries:
            self.claim_at = 0.0

    def on_returned(self, job: Job) -> None:
        self.returning.pop(job.data["token"], None)

    def on_stop(self) -> None:
        now = time.monotonic()
        self.stops += 1
        self.stop_at = now + (self.worker.grace if self.stops == 1 else 0)
        if self.stops > 1:
            return
        log.info("stopping; %d running", len(self.running))
        self.withdraw_at = now
        self.claim_end = now + CLAIM_GRACE
        free = self.worker.concurrency - len(self.running)
        if self.claim_id and not self.claiming and free > 0:
            self.claim(free, 0.0)  # what it may have got is given back

    def end_handlers(self) -> None:
        """What a stop makes due."""
        now = time.monotonic()
        if self.claiming and now >= self.claim_end:
            self.claiming = False  # jobs that it still gets are back when their leases are over
        elif self.claiming:
            if now >= self.withdraw_at:
                # Again, as the claim may reach the server after its withdrawal.
                self.withdraw_at = now + 0.3
                threading.Thread(target=self.worker._withdraw, daemon=True).start()
            return  # it would be handed what the handlers give back
        for job in self.running.values():
            job._stop()
        if now >= self.stop_at:
            for token, job in self.running.items():
                if token not in self.left:
                    self.give_back(job)

    def give_back(self, job: Job) -> None:
        job._stop()
        if job.lost:
            self.left[job.data["token"]] = job
            return
        if not job._conclude():
            return  # its own thread reports it, and then ends
        self.left[job.data["token"]] = self.returning[job.data["token"]] = job
        threading.Thread(target=self.worker._give_back, args=(job,), daemon=True).start()


def trace(error: BaseException) -> str:
    """The end of the trace of an exception: what is nearest to the fault comes last."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return text[-16000:]
