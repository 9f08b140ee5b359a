"""A kept-alive HTTP/1.1 connection, as lean as can be: the client shares the server's cores."""

from __future__ import annotations

import errno
import socket
from time import perf_counter

LOST = 0
"""The status of a request that was sent and got no answer, or none that could be read."""

END_OF_HEAD = b"\r\n\r\n"
CHUNK = 65_536
SENT_WITHIN_S = 10.0


def post(path: str, body: bytes, host: str = "127.0.0.1") -> bytes:
    """The bytes of a request with a JSON body."""
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body


class Line:
    """One connection; it has at most one request under way.

    `due` is when that request should have begun, and `status` is known once it is answered.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._wanted = 0
        self._got = bytearray()
        self.due = 0.0
        self.status = LOST
        self.body = b""

    def fileno(self) -> int:
        """For `select`."""
        assert self._socket is not None
        return self._socket.fileno()

    def send(self, request: bytes, due: float | None = None) -> bool:
        """Begin a request; False where the server cannot even be reached."""
        self.due = perf_counter() if due is None else due
        self.status, self._wanted = LOST, 0
        self._got.clear()
        try:
            if self._socket is None or self._is_closed(self._socket):
                self._connect()
            assert self._socket is not None
            self._socket.settimeout(SENT_WITHIN_S)
            self._socket.sendall(request)
            self._socket.settimeout(0)
        except OSError:
            self.close()
            return False
        return True

    def receive(self) -> bool:
        """Take what has come; True when the request is answered, or lost."""
        assert self._socket is not None
        try:
            part = self._socket.recv(CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        if not part:
            self.close()
            return True
        self._got += part
        if not self._wanted and not self._read_head():
            return False
        if len(self._got) < self._wanted:
            return False
        self._finish()
        return True

    def close(self) -> None:
        """Let go; the next request opens a new connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> None:
        self.close()
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=SENT_WITHIN_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def _is_closed(kept: socket.socket) -> bool:
        """Whether the server ended an idle connection: that loses nothing."""
        try:
            return not kept.recv(1, socket.MSG_PEEK)
        except OSError as error:
            return error.errno not in {errno.EAGAIN, errno.EWOULDBLOCK}

    def _read_head(self) -> bool:
        end = self._got.find(END_OF_HEAD)
        if end < 0:
            return False
        head = bytes(self._got[:end]).lower()
        _, found, rest = head.partition(b"content-length:")
        length = int(rest.partition(b"\r\n")[0]) if found else 0
        self._wanted = end + len(END_OF_HEAD) + length
        self._closes = b"connection: close" in head
        self._body_from = end + len(END_OF_HEAD)
        return True

    def _finish(self) -> None:
        self.status = int(self._got[9:12])
        self.body = bytes(self._got[self._body_from : self._wanted])
        if self._closes:
            self.close()
