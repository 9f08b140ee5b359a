"""What tools cost in a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from toolcrib.encoders.onnx import DEFAULT_MODEL
from toolcrib.encoders.onnx import MODELS
from toolcrib.errors import UnknownToolError
from toolcrib.integrations.formats import export
from toolcrib.records import ToolSpec

__all__ = ["PromptTokens"]


class PromptTokens:
    """Tokens of tools' definitions, as an OpenAI client sends them, in compact JSON.

    They are counted with the bundled encoder's WordPiece vocabulary (30,522 entries), which
    needs no network. A model's own tokenizer gives other counts, most often lower ones: WordPiece
    makes a token of every bracket and quotation mark, where byte-pair vocabularies merge some.
    Shares of a whole registry hardly depend on it.
    """

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        specs = list(tools)
        definitions = [_definition(spec) for spec in specs]
        encoded = _tokenizer().encode_batch_fast(definitions, add_special_tokens=False)
        self._of_tool = {spec.id: len(one.ids) for spec, one in zip(specs, encoded, strict=True)}
        self.whole_registry = sum(self._of_tool.values())

    def count(self, ids: Iterable[str]) -> int:
        """Tokens of these tools together.

        Raises:
            UnknownToolError: there is no tool of this id.
        """
        try:
            return sum(self._of_tool[id] for id in ids)
        except KeyError as unknown:
            raise UnknownToolError(str(unknown.args[0])) from None

    def saved(self, tokens: float) -> float:
        """The share of the whole registry's tokens that `tokens` leave out, in [0, 1]."""
        return 1.0 - tokens / self.whole_registry if self.whole_registry else 0.0


def _definition(spec: ToolSpec) -> str:
    text = json.dumps(export([spec], "openai")[0], ensure_ascii=False, separators=(",", ":"))
    # Lone surrogates are no text that a tokenizer takes.
    return text.encode("utf-8", "replace").decode("utf-8")


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    from tokenizers import Tokenizer

    tokenizer: Any = Tokenizer.from_file(str(MODELS / DEFAULT_MODEL / "tokenizer.json"))
    # The encoder reads no further than some tokens; a prompt's bill does.
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
