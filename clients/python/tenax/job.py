# SPDX-License-Identifier: Apache-2.0
"""A job in the hands of a worker."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from .client import backoff, encode
from .errors import ApiError, ConnectionFailed, GiveBack, LeaseLost, NotFound, StaleToken

if TYPE_CHECKING:
    from .client import Client

# By these the server says that a run is over.
GONE = ("stale_token", "stale_gang", "run_limit", "not_found", "not_in_flight")


class Job:
    """A run of a job, as its handler sees it.

    ``data`` is all that the claim gave; the attributes below are the most used of it.
    """

    def __init__(self, client: "Client", data: Dict[str, Any], lease: float):
        self.data = data
        self.id: str = data["id"]
        self.queue: str = data["queue"]
        self.type: str = data["type"]
        self.payload: Any = data.get("payload")
        self.attempts: int = data.get("attempts", 0)  #: failures so far
        self.run: int = data.get("run", 0)  #: the index of this run, from 0
        self.checkpoint: Any = data.get("checkpoint")  #: what an earlier run saved
        self.traceparent: Optional[str] = data.get("traceparent")  #: the trace that it belongs to
        self.tracestate: Optional[str] = data.get("tracestate")
        #: milliseconds that this run may take, if it has a limit
        self.max_run_ms: Optional[int] = data.get("max_run_ms")
        self._client = client
        self._lost = False
        self._stopping = False
        self._ended = threading.Event()
        # Whoever decides how the run ends; set once, under the lock.
        self._lock = threading.Lock()
        self._concluded = False
        self._started = time.monotonic()
        self._lease_end = self._started + lease
        self._limit: Optional[threading.Timer] = None

    @property
    def lost(self) -> bool:
        """The run is over for the server: its lease or its time ran out, or the job was canceled or deleted.

        Stop the work; nothing that is reported now would count.
        """
        return self._lost

    @property
    def stopping(self) -> bool:
        """The worker is about to end. Finish soon, or save a checkpoint and raise GiveBack."""
        return self._stopping

    def check(self) -> None:
        """Raises LeaseLost if the run is lost, and GiveBack if the worker is about to end."""
        if self._lost:
            raise LeaseLost(f"job {self.id}: the run is over")
        if self._stopping:
            raise GiveBack(f"job {self.id}: the worker ends")

    def wait(self, seconds: float) -> None:
        """Sleeps, but not beyond the moment when ``check`` would raise; then raises the same."""
        self._ended.wait(seconds)
        self.check()

    def progress(self, value: Optional[float] = None, note: Optional[str] = None, *,
                 event: bool = False) -> None:
        """Says how far the work is, from 0 to 1. Lost if the server cannot be reached just now.

        ``event`` tells consumers of events, too. Raises LeaseLost.
        """
        progress: Dict[str, Any] = {}
        if value is not None:
            progress["value"] = value
        if note is not None:
            progress["note"] = note
        if event:
            progress["event"] = True
        try:
            self._say("progress", {"progress": progress})
        except ConnectionFailed:
            pass  # the next one says more

    def save(self, checkpoint: Any) -> None:
        """Saves a checkpoint of at most 64 KiB: it is on the server's disk when this returns.

        The next run, if there is one, has it as ``checkpoint``. Tries as long as the lease lasts;
        raises LeaseLost.
        """
        tries = 0
        while True:
            try:
                self._say("progress", {"checkpoint": checkpoint})
                return
            except ConnectionFailed:
                self._ended.wait(backoff(tries))
                tries += 1
                if self._lost:
                    raise LeaseLost(f"job {self.id}: the run is over") from None

    def _say(self, verb: str, body: Dict[str, Any]) -> Any:
        """One try of a report; an error that says that the run is over makes it lost."""
        if self._lost or self._concluded:
            raise LeaseLost(f"job {self.id}: the run is over")
        try:
            return self._post(verb, body)
        except (StaleToken, NotFound) as e:
            self._lose()
            raise LeaseLost(f"job {self.id}: {e.message}") from e
        except ApiError as e:
            if e.status < 500:
                raise
            raise ConnectionFailed(e.message, sent=True) from e

    def _post(self, verb: str, body: Dict[str, Any]) -> Any:
        return self._client._reports.send(self.id, verb, encode({"token": self.data["token"], **body}))

    def _conclude(self) -> bool:
        """Whether the caller is the one who may say how the run ended."""
        with self._lock:
            first, self._concluded = not self._concluded, True
            return first

    def _lose(self) -> None:
        self._lost = True
        self._ended.set()

    def _stop(self) -> None:
        self._stopping = True
        self._ended.set()
