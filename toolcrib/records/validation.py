"""Validation: files of settings as models, and errors in words: which place is wrong, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from toolcrib.errors import SettingsError

_Model = TypeVar("_Model", bound=BaseModel)

TYPE_NAME = re.compile(r"[-\[(']|^(str|TurnBody)$|Json$")
"""What pydantic puts into the way to a field for each type of a union that it tried."""


def faults(error: ValidationError, whole: str = "the whole") -> list[tuple[str, str]]:
    """Place and reason of everything that is wrong; `whole` stands for no place of its own."""
    details = error.errors(include_url=False, include_input=False)
    return [(_place(each) or whole, _reason(each)) for each in details]


def in_words(error: ValidationError, whole: str = "the whole", *, most: int | None = 1) -> str:
    """The first things that are wrong, all of them with None: `place: reason; ...`."""
    return "; ".join(": ".join(each) for each in faults(error, whole)[:most])


def read_yaml(
    file: str | Path, model: type[_Model], what: str, *, texts_only: bool = False
) -> _Model:
    """The model that a YAML file holds; `texts_only` leaves `no` and `404` the texts that they are.

    Raises:
        SettingsError: it cannot be read, is no YAML, or not such a model; it names all places.
    """
    safe, plain = (
        getattr(yaml, f"C{kind.__name__}", kind) for kind in (yaml.SafeLoader, yaml.BaseLoader)
    )
    try:
        found: Any = yaml.load(Path(file).read_text("utf-8"), plain if texts_only else safe)  # noqa: S506 -- both build plain data only
        return model.model_validate(found)
    except OSError as error:
        raise SettingsError(f"cannot read {what} {str(file)!r}: {error.strerror}") from error
    except ValidationError as error:
        words = in_words(error, "the file", most=None)
        raise SettingsError(f"{what} {str(file)!r}: {words}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise SettingsError(f"{what} {str(file)!r}: is not YAML: {error}") from error


def _place(detail: Mapping[str, Any]) -> str:
    """The way to a field, without the names of the types that were tried on it."""
    steps: Sequence[int | str] = detail["loc"]
    # The last step to what is unknown is the caller's own word.
    own = steps[-1:] if detail["type"] in {"extra_forbidden", "unexpected_keyword_argument"} else ()
    tried = steps[: len(steps) - len(own)]
    way = [step for step in tried if isinstance(step, int) or not TYPE_NAME.search(step)]
    return ".".join(map(str, (*way, *own)))


def _reason(detail: Mapping[str, Any]) -> str:
    return str(detail["msg"]).removeprefix("Value error, ")
