# SPDX-License-Identifier: Apache-2.0
"""One request, one answer, over connections that are kept open."""

from __future__ import annotations

import http.client
import io
import os
import re
import select
import ssl
import threading
import time
from typing import List, Mapping, Optional, Tuple
from urllib.parse import SplitResult, urlsplit

from .errors import ConnectionFailed, TenaxError

IDLE_MAX = 15.0  # seconds; well below what a server closes a connection after
CONNECT_TIMEOUT = 5.0


def read_token(token: Optional[str], token_file: Optional[str]) -> Optional[str]:
    """The token to send: as given, or from the file, or as the environment says."""
    source = "the token"
    if token is None:
        token_file = token_file or os.environ.get("TENAX_TOKEN_FILE")
        if token_file:
            source = token_file
            with open(token_file, encoding="ascii", errors="replace") as file:
                token = file.read()
        else:
            source, token = "TENAX_TOKEN", os.environ.get("TENAX_TOKEN") or None
    if token is None:
        return None
    token = token.strip()
    # The message must not quote what may be a secret.
    if not token or not all("!" <= c <= "~" for c in token):
        raise TenaxError(f"{source} has no token, or more than one")
    return token


class _Reader(io.RawIOBase):
    """What a socket has, until a moment for all of it: its own timeout begins anew with each byte."""

    def __init__(self, sock, raw, end: float):
        self._sock, self._raw, self._end = sock, raw, end

    def readable(self) -> bool:
        return True

    def readinto(self, to) -> Optional[int]:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError()
        self._sock.settimeout(left)
        return self._raw.readinto(to)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Deadline:
    """A socket for HTTPResponse, which only asks for a file."""

    def __init__(self, sock, end: float):
        self._sock, self._end = sock, end

    def makefile(self, _mode: str) -> io.BufferedReader:
        raw = self._sock.makefile("rb", buffering=0)
        return io.BufferedReader(_Reader(self._sock, raw, self._end))


# HOST[:PORT][/PATH], without a scheme.
_BARE_URL = re.compile(r"(\[[^\]]*\]|[^\s:/@\[\]?#]+)(:[0-9]+)?(/[^/?#][^?#]*)?")


def _complete(url: str) -> str:
    bare = _BARE_URL.fullmatch(url)
    return f"http://{bare[1]}{bare[2] or ':7890'}{bare[3] or ''}" if bare else url


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return parts
    except ValueError:
        pass
    raise TenaxError("write the server's URL like http://127.0.0.1:7890 or localhost:7890")


class Transport:
    """Connections to one server, each used by one thread at a time."""

    def __init__(self, url: str, token: Optional[str], token_file: Optional[str],
                 ca_cert: Optional[str], client_cert: Optional[str], client_key: Optional[str]):
        self.url = _complete(url.rstrip("/"))
        parts = _split(self.url)
        self._prefix = parts.path.rstrip("/")
        self._host = parts.hostname
        self._port = parts.port
        # Strict: a misspelt option must not be ignored.
        self._headers = {"Accept": "application/json", "User-Agent": "tenax-python/0.1.0",
                         "Tenax-Strict": "true"}
        self._source = (token, token_file)
        self._authorize()
        self._tls: Optional[ssl.SSLContext] = None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=ca_cert)
            if client_cert:
                self._tls.load_cert_chain(client_cert, client_key)
        self._owner = 0
        self._own()

    def _own(self) -> None:
        """After a fork the connections are the parent's: on them each would get the other's answers.

        Its lock is not used either, as a thread that is not here may have it.
        """
        if self._owner != os.getpid():
            self._owner = os.getpid()
            self._lock = threading.Lock()
            self._idle: List[Tuple[float, http.client.HTTPConnection]] = []

    def _authorize(self) -> None:
        token = read_token(*self._source)
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    @property
    def authorization(self) -> Optional[str]:
        """What requests are sent with by now."""
        return self._headers.get("Authorization")

    def has_another_token(self, used: Optional[str]) -> bool:
        """Whether there is another one by now than was used: in its file, or read by another thread."""
        try:
            self._authorize()
        except (OSError, TenaxError):
            pass  # it is just being written
        return self.authorization != used

    def send(self, method: str, path: str, body: Optional[bytes], timeout: float,
             headers: Mapping[str, str]) -> Tuple[int, bytes]:
        """The status and body of the answer. Raises ConnectionFailed."""
        self._own()
        connection = self._connected()
        headers = {**self._headers, **headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            end = time.monotonic() + timeout
            connection.response_class = lambda sock, **more: http.client.HTTPResponse(
                _Deadline(sock, end), **more)
            connection.sock.settimeout(timeout)
            connection.request(method, self._prefix + path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            why = "no answer in time" if isinstance(e, TimeoutError) else str(e) or repr(e)
            raise ConnectionFailed(f"{method} {path}: {why}", sent=True) from e
        if answer.will_close:
            connection.close()
        else:
            with self._lock:
                self._idle.append((time.monotonic(), connection))
        return answer.status, content

    def close(self) -> None:
        """Closes the connections that are not in use."""
        self._own()
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                since, connection = self._idle.pop() if self._idle else (0.0, None)
            if connection is None:
                return self._connect()
            # One that is readable was closed by the server: a request on it might be lost.
            if time.monotonic() - since < IDLE_MAX and not readable(connection.sock):
                return connection
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls:
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                self._host, self._port, timeout=CONNECT_TIMEOUT, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port,
                                                    timeout=CONNECT_TIMEOUT)
        try:
            connection.connect()
        except OSError as e:
            connection.close()
            raise ConnectionFailed(f"cannot reach {self.url}: {e}", sent=False) from e
        return connection


def readable(sock) -> bool:
    """Whether there is something to read, or an end; poll, as there may be many descriptors."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
