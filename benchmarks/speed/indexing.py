"""Tools in: how fast, how fast again, and what searches notice of it meanwhile."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from speed.figures import median, rounded, stats
from speed.inputs import Inputs, all_texts
from speed.peers import TOP
from speed.searching import engine_ms, timed_ms
from toolcrib import Crib, Settings, ToolSpec
from toolcrib.build import open_store
from toolcrib.encoders.base import DenseEncoder, FloatArray
from toolcrib.indexers.points import layout

WARM_UP = 200


class TimedEncoder:
    """An encoder that adds up how many documents it was given and how long they took."""

    def __init__(self, inner: DenseEncoder) -> None:
        self._inner = inner
        self.ms = 0.0
        self.texts = 0

    @property
    def name(self) -> str:
        """The inner encoder's."""
        return self._inner.name

    @property
    def dimensions(self) -> int:
        """Length of every vector."""
        return self._inner.dimensions

    def encode_query(self, text: str) -> FloatArray:
        """Encode: float32 [dimensions], L2-normalised."""
        return self._inner.encode_query(text)

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        """Encode, with an eye on the clock: float32 [n, dimensions], L2-normalised."""
        vectors, ms = timed_ms(lambda: self._inner.encode_documents(texts))
        self.ms += ms
        self.texts += len(texts)
        return vectors


def open_with(encoder: DenseEncoder, folder: Path) -> Crib:
    """A crib with an encoder object; `Crib.open` would choose its own."""
    settings = Settings()
    return Crib.over(
        open_store(str(folder), settings, layout(encoder.dimensions)), encoder, settings
    )


def index_rate(inputs: Inputs, specs: list[ToolSpec], rounds: int) -> dict[str, Any]:
    """Indexing against the encoder alone on the same texts, in turns, and indexing again.

    `to_encoder_alone` compares two stretches of time, so a machine that is not idle moves it by
    tens of per cent, above 1 even; `encoding_share` is the encoder's part of the very indexing.
    """
    texts = all_texts(specs)
    timed = TimedEncoder(inputs.encoder)
    encode: list[float] = []
    index: list[float] = []
    again: list[float] = []
    shares: list[float] = []

    def alone() -> None:
        encode.append(timed_ms(lambda: inputs.encoder.encode_documents(texts))[1] / 1000)

    def whole() -> None:
        timed.ms, timed.texts = 0.0, 0
        with (
            tempfile.TemporaryDirectory(prefix="toolcrib-bench-") as folder,
            open_with(timed, Path(folder) / "crib") as crib,
        ):
            report, ms = timed_ms(lambda: crib.index_tools(specs))
            if len(report.added) != len(specs) or timed.texts != len(texts):
                raise SystemExit("the index did not encode what the encoder alone did")
            index.append(ms / 1000)
            shares.append(timed.ms / ms)
            again.append(timed_ms(lambda: crib.index_tools(specs))[1] / 1000)

    inputs.encoder.encode_documents(texts[:WARM_UP])
    for turn in range(rounds):
        for step in (alone, whole) if turn % 2 == 0 else (whole, alone):
            step()
    ratios = [one / both for one, both in zip(encode, index, strict=True)]
    return {
        "tools": len(specs),
        "texts": len(texts),
        "tools_per_s": rounded(len(specs) / median(index)),
        "encoder_alone_tools_per_s": rounded(len(specs) / median(encode)),
        "to_encoder_alone": rounded(median(ratios)),
        "to_encoder_alone_by_round": [rounded(ratio) for ratio in ratios],
        "encoding_share": rounded(median(shares)),
        "again_s": rounded(median(again)),
        "again_to_first": rounded(median(again) / median(index)),
    }


def while_indexing(inputs: Inputs, crib: Crib) -> dict[str, Any]:
    """Searches one after another while another thread indexes, encoding for real."""
    extra = inputs.tools.extra
    quiet = [_search(crib, query)[0] for query in inputs.queries]
    find: list[float] = []
    engine: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        start = time.perf_counter()
        running = pool.submit(crib.index_tools, extra)
        for query in itertools.cycle(inputs.queries):
            if running.done():
                break
            whole, part = _search(crib, query)
            find.append(whole)
            engine.append(part)
        seconds = time.perf_counter() - start
        assert len(running.result().added) == len(extra)
    return {
        "tools": len(extra),
        "tools_per_s": rounded(len(extra) / seconds),
        "quiet_find_ms": stats(quiet),
        "find_ms": stats(find),
        "engine_ms": stats(engine),
    }


def _search(crib: Crib, query: str) -> tuple[float, float]:
    result, ms = timed_ms(lambda: crib.find_tools(query, k=TOP))
    return ms, engine_ms(result)
