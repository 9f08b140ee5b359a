"""Encoding anew what an index holds, for other models, settings or formats."""

from __future__ import annotations

from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.identity import index_identity, library_identity
from toolcrib.indexers.sync import PassageSync, ToolSync
from toolcrib.indexers.writer import Listener, ignore
from toolcrib.retrieval.calibration import CALIBRATION_KEY
from toolcrib.router.collections import index_collections, read_collections
from toolcrib.settings import Settings
from toolcrib.store.base import Store
from toolcrib.store.payload import read_passage, read_tool

__all__ = ["copy_passages", "copy_tools"]


def copy_tools(
    source: Store,
    target: Store,
    dense: DenseEncoder,
    settings: Settings,
    progress: Listener | None = None,
) -> None:
    """Every tool of one store into another, encoded anew."""
    lexical = LexicalEncoder(settings.lexical)
    specs = [("the index", read_tool(r.payload)) for r in source.scroll(fields=("spec",))]
    # The calibration goes along: where it does not hold any more, it is refused with why.
    kept = {key: value for key, value in source.read_meta().items() if key == CALIBRATION_KEY}
    target.write_meta({**kept, "identity": index_identity(dense, lexical, settings)})
    sync = ToolSync(target, dense, lexical, settings.fields)
    sync.run(specs, progress=progress or ignore)


def copy_passages(source: Store, target: Store, dense: DenseEncoder, settings: Settings) -> None:
    """Every collection and passage of one store into another, encoded anew."""
    lexical = LexicalEncoder(settings.lexical)
    entries = [("the library", read_passage(record.payload)) for record in source.scroll()]
    catalogue = index_collections(read_collections(source.read_meta()), dense)
    identity = library_identity(dense, lexical)
    target.write_meta({"catalogue": catalogue.as_meta(), "identity": identity})
    PassageSync(target, dense, lexical).run(entries)
