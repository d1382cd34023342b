# SPDX-License-Identifier: Apache-2.0
"""Requests to a server."""

from __future__ import annotations

import datetime
import json
import logging
import os
import random
import time
import uuid
from typing import Any, Dict, Iterable, List, Mapping, Optional
from urllib.parse import quote

from .errors import ApiError, ConnectionFailed, ForeignAnswer, api_error, is_done, is_refusal
from .together import PLAIN, Enqueues, Reports
from .transport import Transport

log = logging.getLogger("tenax.client")

BACKOFF_FIRST, BACKOFF_MAX = 0.1, 2.0  # seconds
# The server says of these that nothing was done.
NOT_DONE = ("busy", "stopping", "disk_full", "request_timeout")


def backoff(tries: int, most: float = BACKOFF_MAX) -> float:
    """Seconds to wait before the next try, a random half of them."""
    full = min(most, BACKOFF_FIRST * 2 ** min(tries, 10))
    return random.uniform(full / 2, full)


# Members that are points in time, in milliseconds since 1970.
TIMES = ("ready_at", "retry_at", "deadline", "retain_until")


def milliseconds(name: str, value: Any) -> Any:
    """A datetime as the server has it; anything else as it is.

    ValueError for a time in seconds, as ``time.time()`` has it, which would be long ago.
    """
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            value = value.astimezone()
        return round(value.timestamp() * 1000)
    if name in TIMES and isinstance(value, (int, float)) and 1e9 <= value < 1e11:
        raise ValueError(f"{name} is in milliseconds since 1970, and {value} looks like seconds; "
                         "a datetime will do, too")
    return value


def encode(body: Any) -> bytes:
    """JSON. ValueError or TypeError if there is none for it, as for NaN."""
    return json.dumps(body, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def may_repeat(job: Mapping[str, Any]) -> bool:
    """Whether the server recognises a second enqueue of the job, for as long as it keeps it."""
    return bool(job.get("alias")) or (
        bool(job.get("unique_key")) and job.get("unique_while") == "exists")


class Client:
    """A server, by its URL. May be used by many threads, and before and after a ``fork``.

    What is not given comes from the environment, as for the ``tenax`` commands: ``TENAX_URL``,
    ``TENAX_TOKEN_FILE`` or ``TENAX_TOKEN``, ``TENAX_CA_CERT``, ``TENAX_CLIENT_CERT``,
    ``TENAX_CLIENT_KEY``.

    ``timeout`` (seconds) limits each request. A request that got no answer is repeated, with a
    growing and random pause, for at most ``retry_for`` seconds in all, and only if that is safe.
    Enqueues are made safe by an Idempotency-Key each, which costs the server some bytes of disk for
    a day; not so with ``idempotent=False``. A file with a token that the server refuses is read
    again, as it may have a newer one by now.

    What a proxy or a sign-in page answers in the server's place is no answer, whatever its status.
    """

    def __init__(self, url: Optional[str] = None, *, token: Optional[str] = None,
                 token_file: Optional[str] = None, ca_cert: Optional[str] = None,
                 client_cert: Optional[str] = None, client_key: Optional[str] = None,
                 timeout: float = 30.0, retry_for: float = 30.0, idempotent: bool = True):
        env = os.environ
        self.timeout = timeout
        self.retry_for = retry_for
        self.idempotent = idempotent
        self._transport = Transport(
            url or env.get("TENAX_URL") or "http://127.0.0.1:7890", token, token_file,
            ca_cert or env.get("TENAX_CA_CERT") or None,
            client_cert or env.get("TENAX_CLIENT_CERT") or None,
            client_key or env.get("TENAX_CLIENT_KEY") or None)
        self._reports = Reports(self)
        self._enqueues = Enqueues(self._enqueue)

    @property
    def url(self) -> str:
        return self._transport.url

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def enqueue(self, queue: str, type: str, payload: Any = None, *,
                idempotency_key: Optional[str] = None, **options: Any) -> Dict[str, Any]:
        """Enqueues a job and returns it, as POST /jobs answers: ``id``, ``status``, ``duplicate``...

        The options are those of docs/api.md by their names there: ``priority``, ``ready_at``,
        ``retry_limit``, ``retry_for_ms``, ``backoff``, ``unique_key``, ``unique_while``, ``depends_on``, ``alias``,
        ``retry_policies``, ``retention`` and all others; those that are ``None`` are left out, and
        times may be ``datetime``. One that the server does not know is an error, which names the one
        that was probably meant.

        Whoever gives the same ``idempotency_key`` and the same job again, also after a restart, is
        answered as the first time, and no job is added. Without one each call has a key of its own,
        so that it can be repeated when its answer is lost.

        ConnectionFailed with ``sent``: for as long as ``retry_for`` there was no answer, and nobody
        knows whether the job was enqueued; ForeignAnswer, a kind of it: something in between
        answered each time. With ``idempotent=False`` only what the server
        recognises is repeated: a job with an ``alias``, or with a ``unique_key`` and
        ``unique_while="exists"``, of which the answer may then say ``duplicate``.
        """
        job = self._job({"queue": queue, "type": type, "payload": payload, **options})
        content = encode(job)
        if idempotency_key is None and PLAIN.issuperset(job):
            return self._enqueues.send(content)
        return self._enqueue("/jobs", content, idempotency_key, may_repeat(job))

    def enqueue_bulk(self, jobs: Iterable[Mapping[str, Any]], *,
                     idempotency_key: Optional[str] = None) -> List[Dict[str, Any]]:
        """Enqueues all of them or none; each has ``queue``, ``type``, ``payload`` and options."""
        many = [self._job({"payload": None, **job}) for job in jobs]
        return self._enqueue("/jobs/bulk", encode({"jobs": many}), idempotency_key,
                             all(may_repeat(job) for job in many))["jobs"]

    def _enqueue(self, path: str, content: bytes, key: Optional[str] = None, repeat: bool = False) -> Any:
        if key is None and self.idempotent:
            key = str(uuid.uuid4())
        return self._send("POST", path, content, member="jobs" if path == "/jobs/bulk" else "id",
                          idempotency_key=key, repeat=repeat or key is not None)

    def job(self, id: str, *, runs: bool = False) -> Dict[str, Any]:
        """A job as it is now, with its payload, and with its runs if they are asked for."""
        return self.request("GET", f"/jobs/{quote(id, safe='')}" + ("?runs=true" if runs else ""))

    def request(self, method: str, path: str, body: Any = None, *, repeat: Optional[bool] = None,
                timeout: Optional[float] = None, retry_for: Optional[float] = None,
                idempotency_key: Optional[str] = None) -> Any:
        """Any request of docs/api.md; returns the answer's JSON, or None if it has no body.

        Raises a subclass of ApiError, or ConnectionFailed. ``repeat`` says that the request may be
        repeated when it is not known whether it arrived; without it GET, PUT and DELETE may.
        """
        return self._ask(method, path, body, repeat=repeat, timeout=timeout, retry_for=retry_for,
                         idempotency_key=idempotency_key)

    def _ask(self, method: str, path: str, body: Any = None, *, member: Optional[str] = None,
             repeat: Optional[bool] = None, timeout: Optional[float] = None,
             retry_for: Optional[float] = None, idempotency_key: Optional[str] = None) -> Any:
        """The same; an answer without that member is not from Tenax."""
        return self._send(method, path, None if body is None else encode(body), member=member,
                          repeat=repeat, timeout=timeout, retry_for=retry_for,
                          idempotency_key=idempotency_key)

    def _send(self, method: str, path: str, content: Optional[bytes], *, member: Optional[str] = None,
              repeat: Optional[bool] = None, timeout: Optional[float] = None,
              retry_for: Optional[float] = None, idempotency_key: Optional[str] = None) -> Any:
        """The same with the bytes of the body."""
        headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
        if repeat is None:
            repeat = method in ("GET", "PUT", "DELETE")
        end = time.monotonic() + (self.retry_for if retry_for is None else retry_for)
        tries = 0
        while True:
            used = self._transport.authorization
            try:
                return self._once(method, path, content,
                                  self.timeout if timeout is None else timeout, headers, member)
            except ConnectionFailed as e:
                again = repeat or not e.sent
                error: Exception = e
            except ApiError as e:
                if e.status == 401 and self._transport.has_another_token(used):
                    continue
                again = e.code in NOT_DONE or (repeat and e.status in (500, 502, 503, 504))
                error = e
            pause = backoff(tries)
            tries += 1
            if not again or time.monotonic() + pause >= end:
                raise error
            if isinstance(error, ForeignAnswer):
                log.warning("%s; it is asked again", error)
            time.sleep(pause)

    def _once(self, method: str, path: str, content: Optional[bytes], timeout: float,
              headers: Mapping[str, str], member: Optional[str]) -> Any:
        status, text = self._transport.send(method, path, content, timeout, headers)
        try:
            body = json.loads(text) if text else None
        except ValueError:
            raise ForeignAnswer(method, path, status) from None
        if 200 <= status < 300:
            if not is_done(path, status, body, member):
                raise ForeignAnswer(method, path, status)
            return body
        if not is_refusal(path, body):
            raise ForeignAnswer(method, path, status)
        raise api_error(status, body)

    @staticmethod
    def _job(job: Mapping[str, Any]) -> Dict[str, Any]:
        return {name: value if name == "payload" else milliseconds(name, value)
                for name, value in job.items() if value is not None or name == "payload"}
