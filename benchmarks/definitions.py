"""Definitions of real tools that providers refuse: as written, and as they are handed out.

    python benchmarks/definitions.py CORPORA/*.jsonl.gz

8,000 tools of each corpus (seed 0). Every form is held against the rules of its provider
(`toolcrib.integrations.providers`) and the meta-schema of JSON Schema 2020-12. A tool that no
form can express is listed. For each tool an object with all its properties goes there and back.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corpora import specs

from toolcrib import ToolSpec
from toolcrib.integrations.formats import Definitions, restore_arguments
from toolcrib.integrations.providers import (
    Definition,
    Provider,
    UnfitSchemaError,
    fit_schema,
    refusals,
    rename_arguments,
    safe_names,
)
from toolcrib.records.codec import list_of, object_of

TOOLS = 8_000
FORMS = {
    "mcp": (Provider.GEMINI, Provider.BEDROCK),
    "openai": (Provider.OPENAI,),
    "openai-namespaces": (Provider.OPENAI,),
    "anthropic": (Provider.ANTHROPIC,),
    "anthropic-deferred": (Provider.ANTHROPIC,),
}
"""Providers that each form is for. MCP's is held against the schema rules of two others."""


def main() -> None:
    """Print a table of refusals a corpus."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--tools", type=int, default=TOOLS)
    options = parser.parse_args()
    print("| corpus | form | tools | refused as written | refused | left out |")
    print("| --- | --- | --: | --: | --: | --: |")
    for path in options.corpora:
        tools = random.Random(0).sample(list(specs(path)), options.tools)
        raw, refused = Counter[str](), Counter[str]()
        left_out: dict[str, list[str]] = {form: [] for form in FORMS}
        for tool in tools:
            for form, providers in FORMS.items():
                raw[form] += any(map(bool, written(tool, providers)))
                made = Definitions.of([tool], form)
                left_out[form] += [f"{each.id}: {each.reason}" for each in made.left_out]
                shown = map(definition, functions(made.tools))
                refused[form] += any(faults(each, form, providers) for each in shown)
        for form, names in left_out.items():
            counts = f"{len(tools):,} | {raw[form]} | {refused[form]} | {len(names)}"
            print(f"| {path.name} | {form} | {counts} |")
        print(*sorted({name for names in left_out.values() for name in names}), sep="\n")
        survived = Counter(map(survives, tools))
        print(f"\narguments of {survived[True]:,} of {len(tools):,} tools came back as they were\n")


def written(tool: ToolSpec, providers: tuple[Provider, ...]) -> Iterator[str]:
    """Faults of a schema as its author wrote it; names of tools are the business of a form."""
    schema = tool.input_schema or {"type": "object"}
    for provider in providers:
        yield from refusals(provider, Definition("name", "text", schema))


def functions(tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Functions of a form, those in namespaces too."""
    for each in tools:
        yield from functions(each["tools"]) if each.get("type") == "namespace" else [each]


def definition(shown: dict[str, Any]) -> Definition:
    """Name, description and schema of a function in any form."""
    inner = shown.get("function", shown)
    schema = next(inner[k] for k in ("parameters", "input_schema", "inputSchema") if k in inner)
    return Definition(inner["name"], inner["description"], schema)


def faults(given: Definition, form: str, providers: tuple[Provider, ...]) -> list[str]:
    """Faults by the rules of a form's providers."""
    if form == "mcp":
        given = given._replace(name="name", description="text")
    return [fault for provider in providers for fault in refusals(provider, given)]


def survives(tool: ToolSpec) -> bool:
    """True if an object with all properties comes back with the names that it had."""
    try:
        own = fit_schema(tool.input_schema).schema
    except UnfitSchemaError:
        return False
    given = object_of(example(own))
    return restore_arguments(tool, rename_arguments([own], given, safe_names(own))) == given


def example(schema: Any) -> Any:
    """Value with every property that a schema names."""
    known = object_of(schema)
    options = [*list_of(known.get("anyOf")), *list_of(known.get("oneOf"))]
    parts = [known, *options[:1], *list_of(known.get("allOf"))]
    named = {
        name: each for part in parts for name, each in object_of(part.get("properties")).items()
    }
    if named:
        return {name: example(each) for name, each in named.items()}
    if "items" in known:
        return [example(known["items"])]
    return example(options[0]) if options else "value"


if __name__ == "__main__":
    main()
