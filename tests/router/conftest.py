"""A small house to decide turns in: tools, passages, labels of one's own, and stores that watch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from toolcrib import Collection, Crib, Passage, Settings, ToolSpec
from toolcrib.build import MEMORY, open_store
from toolcrib.clock import Clock
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import EncoderError
from toolcrib.indexers.points import layout, passage_layout
from toolcrib.store.base import Store
from toolcrib.store.folder import LazyStore

TOOLS = (
    ToolSpec(name="send_mail", server="mail", description="Send a mail to somebody."),
    ToolSpec(name="read_mail", server="mail", description="Read the mail of today."),
    ToolSpec(name="send_parcel", server="post", description="Send a parcel to somebody."),
    ToolSpec(name="track_parcel", server="post", description="Tell where a parcel is now."),
    ToolSpec(
        name="patient_file",
        server="clinic",
        description="Read the file of a patient.",
        sensitivity="pii",
    ),
    ToolSpec(name="search", server="web", description="Look anything up on the web."),
)
THINK = ToolSpec(name="think", server="agent", description="Take a moment.", always_active=True)

COLLECTIONS = (
    Collection(name="post_rules", description="How parcels are packed, weighed and paid for."),
    Collection(name="wards", description="Rules of the wards of the clinic.", sensitivity="pii"),
)
PASSAGES = (
    Passage("post_rules", "weight.md", "A parcel may weigh at most thirty kilograms."),
    Passage("post_rules", "glass.md", "Glass in a parcel is wrapped in paper twice."),
    Passage("wards", "visits.md", "Patients are visited between two and six in the afternoon."),
)

LABELS: dict[str, dict[str, Any]] = {
    "intent": {
        "buy": ("buy me some apples", "I want to buy a saw", "please buy bread", "buy it now"),
        "sell": ("sell my old bike", "I want to sell a saw", "please sell bread", "sell it now"),
    },
    "domain": {
        "fruit": ("apples and pears", "ripe plums", "a kilo of cherries", "sour apples"),
        "tools": ("a saw and a hammer", "old nails", "a box of screws", "the blunt saw"),
    },
    "urgency": {
        "low": ("whenever you like", "some day", "no hurry at all", "next year perhaps"),
        "high": ("right now", "immediately please", "this cannot wait", "hurry up"),
    },
    "sensitivity": {
        "public": ("anyone may know", "it is in the paper", "as everybody knows"),
        "internal": ("among colleagues", "for our team alone", "not outside the house"),
        "pii": ("her birthday and address", "his phone number", "the name of the patient"),
        "safety_critical": ("mind the high voltage", "the brakes of the train", "toxic gas"),
    },
    "smalltalk": {
        "greeting": ("hello", "good morning", "hi there", "hello again"),
        "thanks": ("thanks", "thank you so much", "many thanks", "thanks a lot"),
    },
    "need": {
        "act": ("do it for me", "buy this", "please send that", "make one"),
        "know": ("what is it", "how does this work", "why is that so", "who knows"),
    },
}


def free_of_models(**fields: Any) -> Settings:
    """Settings whose encoder and detector need no model: fast, the same everywhere.

    How near its vectors are says nothing, so anything is an alternate.
    """
    by_cues = "semantic" if fields.get("context", {}).get("labels") else "heuristic"
    chosen = {"encoder": {"dense": "deterministic"}, "context": {"detector": by_cues}}
    chosen["recovery"] = {"likeness": 0}
    return Settings.model_validate(chosen | fields)


def write_labels(folder: Path) -> dict[str, str]:
    """A file of `LABELS` for every field, as `context.labels` names them."""
    files = {field: folder / f"{field}.yaml" for field in LABELS}
    for field, file in files.items():
        labels = {name: {"utterances": list(said)} for name, said in LABELS[field].items()}
        if field == "intent":
            labels["buy"]["aliases"] = ["purchase"]
        outside = ["the moon is far away", "it rained"] if field in {"intent", "domain"} else []
        told = {"labels": labels, "outside": outside}
        file.write_text(yaml.safe_dump(told, sort_keys=False), encoding="utf-8")
    return {field: str(file) for field, file in files.items()}


class CountingEncoder(DeterministicEncoder):
    """Counts how often it is called; fails as long as it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.queries: list[str] = []
        self.documents: list[str] = []
        self.fails = False

    def encode_query(self, text: str):
        self._check()
        self.queries.append(text)
        return super().encode_query(text)

    def encode_documents(self, texts):
        self._check()
        self.documents += texts
        return super().encode_documents(texts)

    def _check(self) -> None:
        if self.fails:
            raise EncoderError("the model is gone")


class WatchedStore:
    """A store that does something more, or fails, whenever one of these methods is used."""

    def __init__(self, store: Store, **more: Callable[[], None]) -> None:
        self._store = store
        self._more = more

    def __getattr__(self, name: str) -> Any:
        self._more.get(name, int)()
        if name == "search_and_list":
            # By the contract's own words: by methods that are watched.
            return partial(Store.search_and_list, self)
        return getattr(self._store, name)


def failing(error: Exception) -> Callable[[], None]:
    """What a watched method does to fail."""

    def fail() -> None:
        raise error

    return fail


class Shelves:
    """A filled store of tools and one of passages, over which cribs are opened to read."""

    def __init__(self, tools: Sequence[ToolSpec] = (*TOOLS, THINK)) -> None:
        self._settings = free_of_models()
        self._dense = DeterministicEncoder()
        width = self._dense.dimensions
        self.tools = open_store(MEMORY, self._settings, layout(width))
        self.passages = open_store(MEMORY, self._settings, passage_layout(width))
        crib = Crib.over(self.tools, self._dense, self._settings, passages=self._shared())
        crib.index_tools(tools)
        crib.add_collections(*COLLECTIONS)
        crib.index_passages(PASSAGES)

    def crib(
        self,
        *,
        dense: DenseEncoder | None = None,
        clock: Clock | None = None,
        watch: Callable[[Any], Any] = lambda store: store,
        **fields: Any,
    ) -> Crib:
        """A crib with these settings; no registry is small unless the settings say so."""
        fields = {**fields, "tools": {"pass_through": 0, **fields.get("tools", {})}}
        settings, encoder = free_of_models(**fields), dense or self._dense
        passages = self._shared(watch)
        return Crib.over(watch(self.tools), encoder, settings, passages=passages, clock=clock)

    def _shared(self, watch=lambda store: store) -> LazyStore:
        return LazyStore(lambda: watch(self.passages), lambda: True)

    def close(self) -> None:
        """Let go of both stores."""
        self.tools.close()
        self.passages.close()


@pytest.fixture(scope="session")
def shelves() -> Iterator[Shelves]:
    """The shelves of `TOOLS`, `THINK` and `PASSAGES`, which no test writes to."""
    filled = Shelves()
    yield filled
    filled.close()
