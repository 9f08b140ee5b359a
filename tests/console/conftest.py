"""A real service over a small registry, and a real browser that looks at its console."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.conftest import encoded_once
from tests.serving import Service, running_service
from toolcrib import Settings

DATA = Path(__file__).parents[2] / "data"
TOOLS = ("shop.json", "payments.yaml", "mailbox.jsonl", "desk.jsonl")
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)


PATIENCE_MS = 15_000
"""Far more than anything takes, for machines that are busy with other things."""

expect.set_options(timeout=PATIENCE_MS)

DESK: Any = {"viewport": {"width": 1280, "height": 900}}

Browsing = Any

WITHOUT_MODELS: Any = {"encoder": {"dense": "deterministic"}, "context": {"detector": "heuristic"}}


@contextmanager
def serving(location: str = ":memory:", **settings: Any) -> Iterator[Service]:
    """A service with these settings, for the time of the block."""
    chosen = Settings.model_validate({"telemetry": {"text": True}, **settings})
    with running_service(chosen, location) as started:
        assert started.writer  # made while the store answers
        yield started


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Four servers' tools and one collection, the shipped model and calibration."""
    reports = tmp_path_factory.mktemp("reports")
    servers = tmp_path_factory.mktemp("gateway") / "mcp.json"
    servers.write_text('{"mcpServers": {"post": {"command": "${MAILER}"}}}', encoding="utf-8")
    paths = {"reports": str(reports), "gateway_config": str(servers)}
    with serving(service=paths) as started:
        crib = started.namespaces.crib()
        with encoded_once():
            crib.index_tools(*(DATA / "registry" / name for name in TOOLS))
            crib.index_docs(DATA / "collections" / "agile", collection="agile")
        yield started


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """A browser; this folder's own, as its event loop would be in the way of asynchronous tests."""
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="package")
def profile(chromium: Browser, service: Service) -> BrowserContext:
    """Profile of most windows, as to make one for each takes a window half of its time.

    One page stays open, and with it the process that draws the others.
    """
    made = chromium.new_context(**DESK)
    made.new_page().goto(f"{service.url}/healthz")
    return made


@pytest.fixture
def browse(chromium: Browser, profile: BrowserContext, service: Service) -> Iterator[Browsing]:
    """Opens the console in a new window; in the end, no window may have complained.

    With `clock`, the page's time passes only when the test says so. Windows with that or other
    options have a profile of their own; it may be asked for by `alone`.
    """
    opened: list[Page] = []
    own: list[BrowserContext] = []
    complaints: list[str] = []

    def look(
        place: str = "",
        *,
        key: str | None = "",
        at: Service = service,
        clock: bool = False,
        alone: bool = False,
        **how: Any,
    ) -> Page:
        context = profile
        if clock or alone or how:
            context = chromium.new_context(**{**DESK, **how})
            own.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        opened.append(page)
        if clock:
            page.clock.install()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("console", lambda said: complaints.append(said.text) if _is_bad(said) else None)
        page.goto(f"{at.url}/healthz")
        page.evaluate("localStorage.clear()")
        if key is not None:
            page.evaluate("key => sessionStorage.setItem('toolcrib.key', key)", key or at.writer)
        page.goto(f"{at.url}/{place}")
        return page

    yield look
    for each in (*opened, *own):
        each.close()
    assert complaints == []


@pytest.fixture
def asked(browse: Browsing) -> Browsing:
    """Opens the console at the answer to a turn."""

    def look(text: str, **how: Any) -> Page:
        page = browse(f"#/ask?q={text}", **how)
        page.locator(".answer").wait_for()
        return page

    return look


def press(page: Page, *keys: str) -> None:
    """Press keys one after the other."""
    for key in keys:
        page.keyboard.press(key)


def fill_by_keys(page: Page, *texts: str) -> None:
    """Write texts into the field that has the focus and those behind it."""
    for number, text in enumerate(texts):
        if number:
            page.keyboard.press("Tab")
        page.keyboard.type(text)


def _is_bad(said: Any) -> bool:
    """Statuses of errors are written there by the browser itself, and are no fault of the page."""
    return said.type in {"error", "warning"} and "Failed to load resource" not in said.text
