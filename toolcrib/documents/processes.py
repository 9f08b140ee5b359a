"""Processes that load and split documents, each one document at a time, within limits.

Documents are untrusted, and some parsers fail badly: a page of blanks blocks an interpreter for
minutes, a PDF of a kilobyte unpacks to gigabytes. A process can always be killed, which frees its
memory.

Messages over the pipes are frames: the length in four bytes, then JSON or a document.
"""

from __future__ import annotations

import faulthandler
import json
import mmap
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from toolcrib.documents.chunking import DOCUMENTS_EXTRA, Part, split
from toolcrib.documents.loading import load
from toolcrib.errors import MissingExtraError, SourceError

MAX_IDLE_PROCESSES = 1
"""Processes kept for the next document; simultaneous conversions start more."""

_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; "
    "from toolcrib.documents.processes import serve; serve({memory})"
)


@dataclass(frozen=True, slots=True)
class ConversionLimits:
    """Limits of one conversion: time, memory of its process, characters of its text.

    The memory limit needs `setrlimit`, and has no effect on macOS and Windows.
    """

    timeout_s: float = 120.0
    memory_bytes: int = 1024 * 2**20
    text_chars: int = 60_000_000


DEFAULT_CONVERSION_LIMITS = ConversionLimits()


class Converters:
    """Processes that each convert one document at a time; for several threads.

    Processes are started when needed, and end with `close` or with this process.
    """

    def __init__(self, limits: ConversionLimits = DEFAULT_CONVERSION_LIMITS) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._idle: list[_Process] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for each in idle:
            each.end()

    def convert(
        self, content: bytes, given: Mapping[str, object], *, timeout_s: float | None = None
    ) -> list[Part]:
        """Convert a document into parts; `given` holds the other arguments of `load` and `split`.

        `timeout_s` replaces the time limit if it is lower.

        Raises:
            SourceError: the document is not of the kind that its name states, or exceeds a limit.
            MissingExtraError: the extra `docs` is not installed.
        """
        limits, name = self._limits, str(given["name"])
        allowed_s = min(limits.timeout_s, limits.timeout_s if timeout_s is None else timeout_s)
        process = self._acquire()
        request = {**given, "timeout_s": allowed_s, "text_chars": limits.text_chars}
        answer: dict[str, Any] = {"worn": True}
        try:
            answer = process.ask(content, request, allowed_s)
        except TimeoutError:
            reason = f"not converted within {allowed_s:g} s; split it, or save it as text"
            raise SourceError(name, "", reason) from None
        except OSError:
            mib = limits.memory_bytes // 2**20
            reason = f"its conversion died, perhaps out of memory ({mib:,} MiB); split it"
            raise SourceError(name, "", reason) from None
        finally:
            self._release(process, is_bloated=answer["worn"])
        if "missing" in answer:
            raise MissingExtraError(*DOCUMENTS_EXTRA)
        if "refused" in answer:
            raise SourceError(name, "", answer["refused"])
        return [Part(text, tuple(title), start) for text, title, start in answer["parts"]]

    def _acquire(self) -> _Process:
        with self._lock:
            while self._idle:
                if (found := self._idle.pop()).is_alive:
                    return found
                found.end()
        return _Process(self._limits.memory_bytes)

    def _release(self, process: _Process, *, is_bloated: bool) -> None:
        with self._lock:
            if not is_bloated and len(self._idle) < MAX_IDLE_PROCESSES:
                self._idle.append(process)
                return
        process.end()


class _Process:
    def __init__(self, memory_bytes: int) -> None:
        # With our module path, so that it finds the same packages, and not files in its folder.
        program = _PROGRAM.format(path=[each for each in sys.path if each], memory=memory_bytes)
        self._process = subprocess.Popen(  # noqa: S603 -- this interpreter, our program
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Ctrl-C must not reach the process, which we end: first for POSIX, then for Windows.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, content: bytes, request: dict[str, Any], allowed_s: float) -> dict[str, Any]:
        """Send a document and return the answer.

        Raises:
            TimeoutError: no answer within `allowed_s`; the process is killed.
            OSError: the process ended.
        """
        sending, receiving = self._process.stdin, self._process.stdout
        assert sending is not None
        assert receiving is not None
        late = threading.Event()
        # Pipes have no timeout on Windows; killing the process ends every wait.
        timer = threading.Timer(allowed_s, lambda: (late.set(), self._process.kill()))
        timer.start()
        try:
            _send(sending, json.dumps(request).encode())
            _send(sending, content)
            return json.loads(_receive(receiving))
        except OSError:
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()

    def end(self) -> None:
        self._process.kill()
        with suppress(OSError):  # unsent data cannot be flushed
            self._process.__exit__(None, None, None)


def _send(pipe: IO[bytes], frame: bytes) -> None:
    pipe.write(len(frame).to_bytes(4))
    pipe.write(frame)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes:
    return _receive_bytes(pipe, int.from_bytes(_receive_bytes(pipe, 4)))


def _receive_bytes(pipe: IO[bytes], size: int) -> bytes:
    if len(found := pipe.read(size)) < size:
        raise ConnectionError("the other process has ended")
    return found


# -- in the other process --------------------------------------------------------------------------


def serve(memory_bytes: int) -> None:
    """Convert documents from standard input, until it is closed."""
    with suppress(ImportError, ValueError, OSError):  # macOS lets nobody set the second limit
        import resource  # which Windows lacks

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    receiving, sending = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    # Prints of a parser must not mix with our answers.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with suppress(OSError):
        while True:
            request = json.loads(_receive(receiving))
            content = _receive(receiving)
            _end_after(request.pop("timeout_s") + 1)
            answer = _answer(content, request, memory_bytes)
            _end_after(0)
            _send(sending, json.dumps(answer).encode())


def _end_after(seconds: float) -> None:
    """Kill this process after some seconds, as its requester may have died; 0 cancels that."""
    if sys.platform != "win32":  # by no thread, whose stack would count as memory
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    elif seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()


def _answer(content: bytes, request: dict[str, Any], memory_bytes: int) -> dict[str, Any]:
    try:
        # Memory that parsers did not free is missing for the next document.
        return {**_convert(content, **request), "worn": _held_bytes() > memory_bytes // 2}
    except MemoryError:
        reason = f"takes more than {memory_bytes // 2**20:,} MiB of memory; split it"
        return {"refused": reason, "worn": True}


def _convert(
    content: bytes, *, name: str, kind: Any, charset: str | None, max_tokens: int, text_chars: int
) -> dict[str, Any]:
    parts: list[tuple[str, tuple[str, ...], int]] = []
    size = 0
    try:
        loaded = load(content, name, kind, charset)
        for part in split(loaded.text, loaded.kind, max_tokens, title=loaded.title):
            size += sum(map(len, (part.text, *part.title)))
            if size > text_chars:
                return {"refused": f"holds more than {text_chars:,} characters of text; split it"}
            parts.append((part.text, part.title, part.start))
    except SourceError as error:
        return {"refused": error.reason}
    except MissingExtraError:
        return {"missing": True}
    return {"parts": parts}


def _held_bytes() -> int:
    """Bytes that count against the memory limit; 0 without a limit."""
    with suppress(OSError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    return 0
