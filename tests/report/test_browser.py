"""The page in a real browser: it fits a phone, and is light or dark as the reader's system is."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import PRETENDERS, Pretender, believable
from toolcrib.report.page import render

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))),
    None,
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

DARK, LIGHT = 0, 1
PHONE, PAPER, DESK = 400, 718, 1200

# In frames, as a window of its own is never narrower than 500 pixels.
FRAME = '<iframe srcdoc="{page}" style="width: {width}px; height: 900px; border: 0"></iframe>'
PROBE = """<script>addEventListener("load", () => {
 const probe = frame => {
  const page = frame.contentDocument, root = page.documentElement;
  const all = selector => [...page.querySelectorAll(selector)];
  const box = element => element.getBoundingClientRect();
  const words = "svg text, h1, h2, h3, p, figcaption, summary, dd, .misses td";
  const letters = e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a;
  return [
    root.clientWidth,
    root.scrollWidth,
    all(words).filter(e => box(e).right > root.clientWidth + 0.5).map(e => e.textContent).join(),
    Math.min(...all("svg text").map(letters)),
    all("svg").filter(e => box(e).height > 40).length,
    all(".scroll:not(.inner *)").filter(e => e.scrollWidth > e.clientWidth).length,
  ];
 };
 const frames = [...document.querySelectorAll("iframe")];
 document.body.dataset.probe = JSON.stringify(frames.map(probe));
})</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sets and long names, everything folded out."""
    long_name = Pretender("a-router-with-a-very-long-name-indeed", 0.6, 14.0, candid=True)
    sizes = {"office": 90, "a-data-set-with-a-long-name-in-one-word": 60}
    html = render(believable(sizes, (*PRETENDERS, long_name)))
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html.replace("<details ", "<details open "), encoding="utf-8")
    return path


def browse(page: Path, *options: str) -> str:
    command = [
        str(BROWSER),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=5000",
        f"--user-data-dir={page.parent / 'profile'}",
        *options,
        page.as_uri(),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def probes(page: Path, html: str, widths: tuple[int, ...]) -> list[list[Any]]:
    """Measures of the page in frames of these widths."""
    frames = "".join(FRAME.format(page=escape(html), width=width) for width in widths)
    framed = page.with_name("framed.html")
    framed.write_text(f"<!doctype html><body>{frames}{PROBE}</body>", "utf-8")
    found = re.search(r'data-probe="([^"]*)"', browse(framed, "--dump-dom"))
    assert found
    return json.loads(unescape(found[1]))


@pytest.mark.slow
def test_paper_has_whole_leaderboards(page: Path):
    html = page.read_text("utf-8").replace("@media print", "@media screen")
    ((*_, cut),) = probes(page, html, (PAPER,))
    assert cut == 0


@pytest.mark.slow
def test_nothing_stands_out_beyond_the_window(page: Path):
    widths = (PHONE, DESK)
    for width, probe in zip(widths, probes(page, page.read_text("utf-8"), widths), strict=True):
        window, needed, beyond, smallest_letters, drawings, _ = probe
        assert window == needed == width
        assert beyond == ""
        assert smallest_letters > 9
        assert drawings == 3 * 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "scheme", "paper"), [(PHONE, LIGHT, (255, 255, 255)), (DESK, DARK, (21, 23, 26))]
)
def test_the_picture_is_light_or_dark_as_the_reader_prefers(
    page: Path, scheme: int, paper: tuple[int, int, int], width: int
):
    from PIL import Image

    shot = page.with_name(f"{width}-{scheme}.png")
    blink = f"--blink-settings=preferredColorScheme={scheme}"
    browse(page, blink, f"--screenshot={shot}", f"--window-size={width},2400")
    with Image.open(shot) as image:
        picture = image.convert("RGB")
    colours = picture.getcolors(maxcolors=picture.width * picture.height) or []
    assert picture.getpixel((2, 2)) == paper
    assert max(colours)[1] == paper
    assert len(colours) > 100
