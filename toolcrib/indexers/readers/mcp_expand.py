"""Placeholders in an mcp.json: `${VAR}`, `${VAR:-default}` and `${env:VAR}` become values."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["Expander"]

PLACEHOLDER = re.compile(r"\$\{([^{}]*)\}")

VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)

NESTED = re.compile(r"\$\{[^{}]*\$\{")

EDITOR_ONLY = re.compile(
    r"(?:workspaceFolder(?:Basename)?|userHome|pathSeparator|/|file\w*|relativeFile\w*)(?::.*)?"
    r"|(?:config|command|extensionInstallFolder):.*",
)


class Expander:
    """Expands the texts of one server's entry and collects what could not be expanded.

    A value is never expanded again, so that a `${` in a secret stays what it is. Anything in
    braces that is no placeholder (`${X%/}` in a shell command) is left as it stands.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self.problems: list[str] = []

    def text(self, where: str, value: str) -> str:
        """`value` with its placeholders filled in; `where` names it in `problems`."""
        if NESTED.search(value):
            self._report(f"{where} has one placeholder inside another; write the inner one out")
            return value
        return PLACEHOLDER.sub(lambda found: self._one(where, found), value)

    def _one(self, where: str, found: re.Match[str]) -> str:
        inside = found[1]
        variable = VARIABLE.fullmatch(inside)
        if variable and variable[1] in self._env:
            return self._env[variable[1]]
        if variable and variable[2] is not None:
            return variable[2]
        if inside.startswith("input:"):
            self._report(
                f"{where} needs an interactive input ({found[0]}), which only an editor asks for; "
                "write an environment variable there, such as ${TOKEN}",
            )
        elif EDITOR_ONLY.fullmatch(inside):
            self._report(f"{where} uses {found[0]}, which only an editor knows; write it out")
        elif variable:
            name = variable[1]
            self._report(
                f"{where} needs the environment variable {name!r}, which is not set; "
                f"set it, or write ${{{name}:-default}}",
            )
        return found[0]

    def _report(self, problem: str) -> None:
        if problem not in self.problems:
            self.problems.append(problem)
