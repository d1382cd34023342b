# SPDX-License-Identifier: Apache-2.0
"""What can go wrong, and what a handler raises to say how a run ended."""

from __future__ import annotations

import re
from typing import Any, Dict, Optional

# How the server's sentences name the member that is wrong: "jobs[3]: priority: expected ...".
_WHERE = re.compile(r"((?:[\w.$-]+(?:\[\d+\])*: )+)")


class TenaxError(Exception):
    """Whatever this package raises."""


class ConnectionFailed(TenaxError):
    """There was no answer.

    ``sent`` is false if the request never left, so that nothing can have happened. If it is true
    the outcome is unknown: the server may have done what was asked.
    """

    def __init__(self, message: str, sent: bool):
        super().__init__(message)
        self.sent = sent


class ForeignAnswer(ConnectionFailed):
    """Something else answered in the server's place: a proxy, a load balancer, a sign-in page.

    Such an answer, whatever its ``status``, says nothing about the request: it counts as none.
    """

    def __init__(self, method: str, path: str, status: int):
        super().__init__(f"{method} {path}: what answered with HTTP {status} is not Tenax but "
                         "something in between, such as a proxy", sent=True)
        self.status = status


class ApiError(TenaxError):
    """The server refused. ``code`` is one of docs/errors.md."""

    def __init__(self, status: int, code: str, message: str, offset: Optional[int] = None,
                 body: Any = None):
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.offset = offset  #: where in the body that was sent, in bytes
        self.body = body  #: all of the answer

    @property
    def where(self) -> Optional[str]:
        """The member that is wrong, as ``jobs[3].priority``, if the server names one."""
        match = _WHERE.match(self.message)
        return match.group(1)[:-2].replace(": ", ".") if match else None

    def __str__(self) -> str:
        return f"{self.message} (HTTP {self.status}, {self.code})"


class BadRequest(ApiError):
    """400 and other statuses that say the request is wrong as it stands."""


class Unauthorized(ApiError):
    """401: no token, or one that is wrong, expired or deleted."""


class Forbidden(ApiError):
    """403: the token does not allow it."""


class NotFound(ApiError):
    """404: there is no such thing."""


class Conflict(ApiError):
    """409: it exists already, has changed meanwhile, or is in use."""


class StaleToken(Conflict):
    """409 ``stale_token``, ``stale_gang`` or ``run_limit``: the run is over, and nothing has changed."""


class Unprocessable(ApiError):
    """422: well-formed, but cannot be applied."""


class ServerError(ApiError):
    """5xx: the server could not do it."""


_BY_STATUS = {401: Unauthorized, 403: Forbidden, 404: NotFound, 409: Conflict, 422: Unprocessable}


_CODE = re.compile(r"[a-z][a-z0-9_]*")
_TOLD = re.compile(r"/jobs/[^/]+/(success|release|progress)")
_FAILURE = re.compile(r"/jobs/[^/]+/failure")


def is_refusal(path: str, body: Any) -> bool:
    """Whether this is how Tenax refuses: with a ``code`` and a sentence.

    A health has neither, and an answer that says what became of each of many jobs needs
    neither.
    """
    if not isinstance(body, dict):
        return False
    if path.split("?")[0] == "/health" and isinstance(body.get("status"), str):
        return True
    if any(isinstance(body.get(member), list) for member in ("jobs", "reports", "not_found")):
        return True
    code = body.get("code")
    return (isinstance(code, str) and _CODE.fullmatch(code) is not None
            and isinstance(body.get("error"), str))


def is_done(path: str, status: int, body: Any, member: Optional[str]) -> bool:
    """Whether this is how Tenax says that it was done.

    204 alone is without a body, and what became of one run is answered so, but for a failure,
    whose job is shown.
    """
    if _TOLD.fullmatch(path):
        return status == 204
    if _FAILURE.fullmatch(path):
        member = "id"
    if (status == 204) != (body is None):
        return False
    return member is None or (isinstance(body, dict) and member in body)


def _sentence(body: Dict[str, Any]) -> str:
    if "jobs" in body and "status" not in body:
        return "some of these leases were not renewed"
    if "not_found" in body:
        return "some of these jobs are not in flight"
    return f"the server is {body.get('status')}"


def api_error(status: int, body: Dict[str, Any]) -> ApiError:
    """The error that a refusal stands for."""
    code = body.get("code", "")
    kind = ServerError if status >= 500 else _BY_STATUS.get(status, BadRequest)
    if code in ("stale_token", "stale_gang", "run_limit"):
        kind = StaleToken
    message = body.get("error") or _sentence(body)
    return kind(status, code, message, body.get("offset"), body)


class LeaseLost(TenaxError):
    """The run is not this worker's any more; a handler lets it pass through."""


class GiveBack(TenaxError):
    """Raised by a handler: the job goes back to its queue, and the run does not count.

    ``message`` says why. With ``delay`` (seconds, by the server's clock) or ``ready_at`` (a
    ``datetime`` or milliseconds since 1970) the job is not handed out again before then. Without
    them it comes back at once, if it is given back for the first time, and after that with a pause
    that doubles each time, up to a minute; at once, too, if the worker is about to end.
    """

    def __init__(self, message: str = "", *, ready_at: Any = None, delay: Optional[float] = None):
        super().__init__(*([message] if message else []))
        if ready_at is not None and delay is not None:
            raise ValueError("ready_at and delay exclude each other")
        self.message = message
        self.ready_at = ready_at
        self.delay = delay


class Failure(TenaxError):
    """Raised by a handler: the run failed, and this is what is known about it.

    The arguments are the members of a failure in docs/api.md. ``kill`` ends the job for good;
    ``retry_at`` (a ``datetime`` or milliseconds since 1970) says when to try again. Others, such as
    ``condition`` or ``termination_message``, are passed on as they are.
    """

    def __init__(self, message: str, *, error_type: Optional[str] = None,
                 backtrace: Optional[str] = None, exit_code: Optional[int] = None,
                 category: Optional[str] = None, subcategory: Optional[str] = None,
                 kill: Optional[bool] = None, retry_at: Any = None, **more: Any):
        super().__init__(message)
        self.members = {"message": message, "error_type": error_type, "backtrace": backtrace,
                        "exit_code": exit_code, "category": category, "subcategory": subcategory,
                        "kill": kill, "retry_at": retry_at, **more}
