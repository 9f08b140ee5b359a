"""What two cribs answer, made comparable: all of it, but for how many milliseconds it took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from toolcrib.errors import ToolcribError
from toolcrib.records.codec import as_json

Ask = Callable[[Any], Any]


@dataclass(frozen=True)
class Raised:
    """An error: its class, its text, and what else it knows."""

    kind: type[BaseException]
    text: str
    knows: dict[str, Any]

    @classmethod
    def of(cls, error: Exception) -> Raised:
        """An error as it can be compared; that it came from a service is noted beside it."""
        knows = {name: value for name, value in vars(error).items() if name != "__notes__"}
        return cls(type(error), str(error), knows)


def plain(value: Any) -> Any:
    """An answer as JSON values; of timings, only what was timed, of figures four decimals."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if is_dataclass(value):
        return plain(as_json(value))
    if isinstance(value, Mapping):
        return {k: sorted(v) if k == "took_ms" else plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value


class Both:
    """A crib under test, and an embedded one beside it that is told and asked the same."""

    def __init__(self, crib: Any, twin: Any) -> None:
        self.crib = crib
        self.twin = twin

    def __call__(self, ask: Ask, but: Callable[[Any], Any] = plain) -> Any:
        """What both answer; `but` leaves of an answer what two cribs share."""
        answered, expected = plain(ask(self.crib)), plain(ask(self.twin))
        assert but(answered) == but(expected)
        return answered

    async def later(
        self, ask: Callable[[Any], Awaitable[Any]], but: Callable[[Any], Any] = plain
    ) -> Any:
        answered, expected = plain(await ask(self.crib)), plain(await ask(self.twin))
        assert but(answered) == but(expected)
        return answered

    def fails(self, ask: Ask) -> Raised:
        failure, expected = (self._failure(ask, crib) for crib in (self.crib, self.twin))
        assert failure == expected
        return failure

    def each(self, ask: Ask) -> tuple[Any, Any]:
        return ask(self.crib), ask(self.twin)

    @staticmethod
    def _failure(ask: Ask, crib: Any) -> Raised:
        with pytest.raises(ToolcribError) as caught:
            ask(crib)
        return Raised.of(caught.value)
