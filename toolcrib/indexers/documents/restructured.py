"""reStructuredText to HTML by docutils, which is told of every directive and role there may be.

Sphinx and its extensions have hundreds of them. docutils alone reports each as an error and
drops its text; here such a directive is its arguments and its body, such a role its text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from toolcrib.indexers.documents.extra import import_docs

__all__ = ["rst_to_html"]

_SETTINGS: dict[str, Any] = {
    # Nothing but the text that was given is read, nothing is printed.
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "warning_stream": False,
    "report_level": 5,
    "halt_level": 6,
    "traceback": True,
    # A first section that is alone would become a subtitle, and be no heading.
    "doctitle_xform": False,
    "initial_header_level": 1,
    "embed_stylesheet": False,
    "stylesheet_path": "",
    "math_output": "LaTeX",
    "syntax_highlight": "none",
    "output_encoding": "unicode",
}

ERROR = 3
"""The level from which docutils leaves out what it complains of."""

_SILENT = frozenset({"toctree", "index", "highlight", "currentmodule", "default-domain"})
"""Directives of Sphinx whose words are names of files and switches, not text."""

_TITLED = re.compile(r"(.+?)\s*<[^<>]*>", re.DOTALL)

_lookup = Lock()
"""docutils has one table of directives for the whole process."""


def rst_to_html(text: str) -> str:
    """Give the body of the page that docutils makes of a text; never raises for bad markup.

    Raises:
        MissingExtraError: the extra `docs` is not installed.
    """
    core = import_docs("docutils.core")
    with _lookup, _everything_known():
        tree = core.publish_doctree(text, settings_overrides=_SETTINGS)
    _keep_words(tree)
    return core.publish_from_doctree(tree, writer="html5", settings_overrides=_SETTINGS)


def _keep_words(tree: Any) -> None:
    """Put text in the place of what would be left out, or would read files, when written."""
    nodes = import_docs("docutils.nodes")
    for message in list(tree.findall(nodes.system_message)):
        quoted = [child for child in message.children if isinstance(child, nodes.literal_block)]
        if message["level"] >= ERROR and quoted and message.parent is not None:
            message.parent.replace(message, quoted)
    for broken in list(tree.findall(nodes.problematic)):
        broken.parent.replace(broken, nodes.Text(broken.astext()))
    # An image may ask to be embedded, and its file is read then whatever the settings say.
    for image in list(tree.findall(nodes.image)):
        image.parent.replace(image, nodes.Text(image.get("alt", "")))


@contextmanager
def _everything_known() -> Generator[None]:
    """Let docutils find a directive and a role by every name, and every option of a directive."""
    rst = import_docs("docutils.parsers.rst")
    directives, roles = rst.directives, rst.roles
    find_directive, find_role = directives.directive, roles.role
    any_directive = _any_directive()

    def directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
        found = find_directive(name, language, document)[0] or any_directive
        options = _AnyOption(found.option_spec or {})
        return type(found.__name__, (found,), {"option_spec": options}), []

    def role(name: str, language: Any, line: int, reporter: Any) -> tuple[Any, list[Any]]:
        return find_role(name, language, line, reporter)[0] or _any_role, []

    directives.directive, roles.role = directive, role
    try:
        yield
    finally:
        directives.directive, roles.role = find_directive, find_role


class _AnyOption(dict[str, Callable[[str | None], Any]]):
    """Options of a directive: those that it has, and any other as it is written."""

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[str | None], Any]:
        return str


def _any_directive() -> Any:
    nodes = import_docs("docutils.nodes")
    base: Any = import_docs("docutils.parsers.rst").Directive

    class AnyDirective(base):
        optional_arguments = 1
        final_argument_whitespace = True
        has_content = True

        def run(self) -> list[Any]:
            if self.name.lower() in _SILENT:
                return []
            body = nodes.container()
            body += [nodes.paragraph("", argument) for argument in self.arguments]
            self.state.nested_parse(self.content, self.content_offset, body, match_titles=True)
            return body.children

    return AnyDirective


def _any_role(_name: str, _raw: str, text: str, *_where: Any, **_more: Any) -> Any:
    """Give the words of a role: the title of `title <target>`, the name of `~name`."""
    nodes = import_docs("docutils.nodes")
    plain = nodes.unescape(text)
    titled = _TITLED.fullmatch(plain)
    return [nodes.inline("", titled[1] if titled else plain.lstrip("~!"))], []
