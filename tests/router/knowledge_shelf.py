"""A shelf of three small collections, and routers over it that choose as a test needs it."""

from __future__ import annotations

from typing import Any

from toolcrib.build import make_dense, open_store
from toolcrib.encoders.lexical import LexicalEncoder
from toolcrib.indexers.points import passage_layout
from toolcrib.knowledge_base import KnowledgeBase
from toolcrib.records import Collection, Context, Passage
from toolcrib.retrieval.legs import EncodedQuery
from toolcrib.router.knowledge import KnowledgeRouter
from toolcrib.router.settings import KnowledgeSettings
from toolcrib.settings import Settings
from toolcrib.store.folder import LazyStore

KITCHEN = Collection(
    name="kitchen",
    description="Recipes, and how to cook, bake and season.",
    examples=("How long do I boil an egg?", "What goes into a vegetable soup?"),
    answers=(("food", "cook"),),
)
GARDEN = Collection(
    name="garden",
    description="Sowing, watering, pruning and harvesting plants.",
    examples=("When do I sow carrots?", "How often are tomatoes watered?"),
)
BIKES = Collection(
    name="bikes",
    description="Repairing and maintaining bicycles.",
    examples=("How do I mend a flat tyre?", "Which oil is right for a chain?"),
)
SHELF = (KITCHEN, GARDEN, BIKES)

TEXTS = {
    "kitchen": (
        "Boil an egg for six minutes if the yolk should stay soft, for ten if it should be firm.",
        "Vegetable soup begins with onions and carrots in butter; salt and pepper come at the end.",
        "Knead the dough for bread until smooth, then let it rise in a warm place for one hour.",
    ),
    "garden": (
        "Sow carrots in rows as soon as the soil is warm, and thin the seedlings out in late May.",
        "Water tomatoes early in the morning at the root, never over the leaves, to avoid blight.",
        "Prune apple trees in late winter, and cut out whatever grows inward or crosses a branch.",
    ),
    "bikes": (
        "To mend a flat tyre, take the tube out, find the hole in a bowl of water and patch it.",
        "Oil the chain once a month with thin oil, and wipe off all that does not stay in a link.",
        "Squealing brakes are dirty or badly set; clean the rim and turn the pads a little inward.",
    ),
}
"""Of about one length, so that the mean length hardly depends on which of them there are."""


def passages(name: str) -> list[Passage]:
    return [Passage(name, f"{n}.md", text) for n, text in enumerate(TEXTS[name])]


SETTINGS = Settings()
DENSE, LEXICAL = make_dense(SETTINGS), LexicalEncoder()


def open_library(*collections: Collection, texts: list[Passage] | None = None) -> KnowledgeBase:
    """A library in a passing folder, with the texts of the collections or with others."""
    store = open_store(":memory:", SETTINGS, passage_layout(DENSE.dimensions))
    library = KnowledgeBase(LazyStore(lambda: store, lambda: True), DENSE, SETTINGS)
    library.define(collections)
    if texts is None:
        texts = [part for each in collections for part in passages(each.name)]
    library.put([("", part) for part in texts])
    return library


def ask(text: str) -> EncodedQuery:
    return EncodedQuery(text, DENSE.encode_query(text), LEXICAL.encode_query(text))


def router(library: KnowledgeBase, aliases: dict[str, str] | None = None, **settings: Any):
    chosen = KnowledgeSettings(**settings)
    return KnowledgeRouter(library.retriever(), library.catalogue, chosen, aliases or {})


def context(domain: str | None, intent: str | None, confidence: float = 0.9) -> Context:
    return Context("", domain=domain, intent=intent, confidence=confidence)
