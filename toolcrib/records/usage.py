"""Usage of language models: what they are used for, and what that took."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

ModelUse: TypeAlias = Literal[
    "enrich",
    "rerank",
    "judge",
    "context",
    "agents",
    "capabilities",
    "questions",
    "conversation",
    "guidance",
]
"""What a language model is asked for; each may have a model and a time of its own."""


class Price(BaseModel):
    """What a million tokens of a model cost, in any currency."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: float = Field(default=0.0, ge=0)
    output: float = Field(default=0.0, ge=0)

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """What so many cost."""
        return (input_tokens * self.input + output_tokens * self.output) / 1e6


Cost = Annotated[float, PlainSerializer(lambda value: round(value, 8), return_type=float)]


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What the calls for one use took.

    `calls` counts requests, `failed` those of them without an answer. Tokens are those that the
    server reported. `cost` is in the currency of the settings' prices, None where there are none.
    """

    use: str
    model: str
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: Cost | None = None

    def plus(self, more: ModelUsage) -> ModelUsage:
        """Both together, of one use and model."""
        costs = [each.cost for each in (self, more) if each.cost is not None]
        return ModelUsage(
            self.use,
            self.model,
            self.calls + more.calls,
            self.failed + more.failed,
            self.input_tokens + more.input_tokens,
            self.output_tokens + more.output_tokens,
            sum(costs) if costs else None,
        )


def totals(usages: Iterable[ModelUsage]) -> tuple[ModelUsage, ...]:
    """What was used in all, by use and model."""
    known: dict[tuple[str, str], ModelUsage] = {}
    for each in usages:
        before = known.get((each.use, each.model))
        known[each.use, each.model] = each if before is None else before.plus(each)
    return tuple(known.values())
