"""How a report becomes one HTML document that asks nothing of the network."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from toolcrib.errors import MissingExtraError

__all__ = ["fill"]

FOLDER = "toolcrib.evaluation.report"


def fill(name: str, **values: Any) -> str:
    """The template `name` with these values, and `css`; lone surrogates, as texts may hold, gone.

    Raises:
        MissingExtraError: the extra `eval` is not installed.
    """
    css = (files(FOLDER) / "style.css").read_text(encoding="utf-8")
    page: str = _template(name).render(css=css, **values)
    return page.encode("utf-8", "replace").decode("utf-8")


@cache
def _template(name: str) -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError as missing:
        raise MissingExtraError("the evaluation report", "eval") from missing
    environment = Environment(
        loader=PackageLoader(FOLDER, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)
