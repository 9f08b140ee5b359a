"""A web server on the loopback that answers with what a test put there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@dataclass(slots=True)
class Answer:
    """What is sent for one path."""

    content: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class Site(ThreadingHTTPServer):
    """`answers` by path, query included; anything else is 404."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        super().__init__(("127.0.0.1", 0), Handler)

    def put(self, path: str, content: str | bytes, content_type: str = "", **headers: str) -> str:
        """Answer `path` with this content, and give its URL."""
        body = content.encode() if isinstance(content, str) else content
        named = {"Content-Type": content_type} if content_type else {}
        self.answers[path] = Answer(body, headers={**named, **headers})
        return self.url(path)

    def url(self, path: str) -> str:
        """Give the URL of a path."""
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Print nothing of a client that went away: some tests are about that."""


class Handler(BaseHTTPRequestHandler):
    """Sends the answers of its site."""

    server: Site

    def do_GET(self) -> None:
        answer = self.server.answers.get(self.path, Answer(status=404))
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@contextmanager
def serving() -> Iterator[Site]:
    """Run a site for as long as a test needs it."""
    with Site() as site:
        thread = Thread(target=site.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield site
        finally:
            site.shutdown()
            thread.join()
