"""An index of a handful of tools, and cribs over it that judge as a test needs it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import make_dense
from toolcrib.retrieval.calibration import Calibration
from toolcrib.settings import EncoderSettings
from toolcrib.store.base import Store

GENERAL = "web/search"
TOOLS = [
    ToolSpec(name="send_mail", server="mail", description="Send a mail to somebody."),
    ToolSpec(name="read_mail", server="mail", description="Read the mail of today."),
    ToolSpec(name="send_parcel", server="post", description="Send a parcel to somebody."),
    ToolSpec(name="track_parcel", server="post", description="Tell where a parcel is now."),
    ToolSpec(name="search", server="web", description="Look anything up on the web."),
]
MODEL_FREE = Settings(encoder=EncoderSettings(dense="deterministic"))

Open = Callable[..., Crib]


@pytest.fixture(scope="module")
def indexed() -> Iterator[Store]:
    """A store of `TOOLS`, which no test writes to."""
    with Crib.open(":memory:", settings=MODEL_FREE) as crib:
        crib.index_tools(*TOOLS)
        yield crib.tools.store


@pytest.fixture
def open_crib(indexed: Store) -> Open:
    """Makes cribs of `TOOLS`, with settings of the gate and a calibration, that read only."""

    def make(
        judge: Callable[..., Calibration] | None = None,
        *,
        gate: dict[str, Any] | None = None,
        tools: dict[str, Any] | None = None,
        **fields: Any,
    ) -> Crib:
        given = {"gate": gate or {}, "tools": tools or {}}
        chosen = Settings.model_validate(MODEL_FREE.model_dump() | given)
        crib = Crib.over(indexed, make_dense(chosen), chosen)
        if judge is not None:
            crib.tools.use_calibration(judge(crib.tools.calibration_fingerprint(), **fields))
        return crib

    return make


@pytest.fixture
def own_crib(tmp_path: Path) -> Iterator[Open]:
    """Opens a crib of the same that a test may write to."""
    with ExitStack() as stack:

        def make(judge: Callable[..., Calibration], **fields: Any) -> Crib:
            gate = {"fallback": GENERAL}
            chosen = Settings.model_validate(MODEL_FREE.model_dump() | {"gate": gate})
            crib = stack.enter_context(Crib.open(tmp_path / "own", settings=chosen))
            crib.index_tools(*TOOLS)
            crib.tools.save_calibration(judge(crib.tools.calibration_fingerprint(), **fields))
            return crib

        yield make
