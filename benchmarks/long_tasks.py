"""Calls of recorded runs whose tool a LangChain agent's model was shown.

    python benchmarks/long_tasks.py --data FOLDER [--runs N] [--first N] [--added N] [--most N]

FOLDER is as for `toolcrib eval --steps`. A script stands for the model: it writes and calls what
the run has, through `create_agent` and `ToolcribMiddleware`. Where its tool is not shown, it calls
`find_tools` with what it wrote; where that fails, it calls its tool by name all the same, and the
middleware shows it from then on.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from typing_extensions import override

from toolcrib import Crib, ToolSpec
from toolcrib.encoders.onnx import DEFAULT_MODEL, MODELS_FOLDER
from toolcrib.encoders.wordpiece import WordPiece
from toolcrib.evaluation.steps import RunRow, StepRow, load_runs
from toolcrib.integrations.langchain import ToolcribMiddleware
from toolcrib.integrations.selection import SEARCH, StepOptions


@dataclass
class Counts:
    """Counts over all runs."""

    calls: int = 0
    shown: int = 0
    searched: int = 0
    found: int = 0
    firsts: int = 0
    firsts_shown: int = 0
    firsts_found: int = 0
    sizes: list[int] = field(default_factory=list[int])
    changes: int = 0
    tokens_first: list[int] = field(default_factory=list[int])
    tokens_added: list[int] = field(default_factory=list[int])


class RecordedModel(BaseChatModel):
    """Model that writes and calls what a run has, as far as it is shown the tools."""

    steps: list[Any]
    names: dict[str, str]
    counts: Any
    size: Any
    bound: tuple[str, ...] = ()
    state: dict[str, Any]

    @property
    def _llm_type(self) -> str:
        return "recorded"

    @override
    def bind_tools(self, tools: Sequence[Any], **_: Any) -> RecordedModel:
        names = tuple(tool.name for tool in tools if isinstance(tool, BaseTool))
        return self.model_copy(update={"bound": names})

    @override
    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._count_list()
        return ChatResult(generations=[ChatGeneration(message=self._next())])

    def _count_list(self) -> None:
        before, counts = self.state.get("bound"), self.counts
        counts.sizes.append(len(self.bound))
        if before is None:
            counts.tokens_first.append(sum(map(self.size, self.bound)))
            counts.tokens_added.append(0)
        elif before != self.bound:
            counts.changes += 1
            counts.tokens_added[-1] += sum(map(self.size, set(self.bound) - set(before)))
        self.state["bound"] = self.bound

    def _next(self) -> AIMessage:
        while self.steps:
            step: StepRow = self.steps[0]
            said = step.said or self.state.get("said", self.state["task"])
            name = self.names.get(step.tool or "")
            has_searched = self.state.pop("searched", False)
            if name in {None, *self.bound} or has_searched or SEARCH.name not in self.bound:
                self.steps.pop(0)
                self.state["said"] = said
                if name is not None:
                    text = "" if has_searched else step.said
                    return self._call(name, text, has_searched=has_searched)
            else:
                self.state["searched"] = True
                self.counts.searched += 1
                return _message(step.said, SEARCH.name, {"needs": [said]}, len(self.steps))
        return AIMessage("Done.")

    def _call(self, name: str, text: str, *, has_searched: bool) -> AIMessage:
        """Call a tool, shown or not."""
        counts, called = self.counts, self.state.setdefault("called", set[str]())
        is_there, is_first = name in self.bound, name not in called
        called.add(name)
        counts.calls += 1
        counts.firsts += is_first
        counts.shown += is_there and not has_searched
        counts.firsts_shown += is_there and not has_searched and is_first
        counts.found += is_there and has_searched
        counts.firsts_found += is_there and has_searched and is_first
        return _message(text, name, {}, len(self.steps))


def _message(text: str, name: str, arguments: dict[str, Any], number: int) -> AIMessage:
    call = {"name": name, "args": arguments, "id": f"{name}-{number}"}
    return AIMessage(text, tool_calls=[call])


def main() -> None:
    """Print the shares, the sizes and the tokens."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=int, help="a random sample of so many runs")
    parser.add_argument("-k", type=int, help="tools of the turn")
    for name in ("first", "added", "most"):
        parser.add_argument(f"--{name}", type=int, default=getattr(StepOptions(), name))
    parser.add_argument("--no-search", action="store_true", help="without find_tools")
    parser.add_argument("--once", action="store_true", help="choose by the task alone, no search")
    given = parser.parse_args()
    has_search = not (given.once or given.no_search)
    options = StepOptions(not given.once, given.first, given.added, given.most, has_search)
    specs, runs = load_runs(given.data)
    random.Random(0).shuffle(runs)
    counts, took_s = Counts(), 0.0
    names = {spec.id: spec.id.replace("/", "__") for spec in specs}
    tools = [_tool(names[spec.id], spec) for spec in specs]
    sizes = _sizes(tools)
    with Crib.open(":memory:") as crib:
        crib.index_tools(specs)
        for run in runs[: given.runs]:
            took_s += _follow(crib, run, tools, names, sizes, counts, options, given.k)
    print(_report(counts, took_s, len(runs[: given.runs])))


def _follow(
    crib: Crib,
    run: RunRow,
    tools: list[StructuredTool],
    names: dict[str, str],
    sizes: dict[str, int],
    counts: Counts,
    options: StepOptions,
    k: int | None,
) -> float:
    """Seconds that an agent took for a run."""
    state: dict[str, Any] = {"task": run.task}
    model = RecordedModel(
        steps=list(run.steps),
        names=names,
        counts=counts,
        size=sizes.__getitem__,
        state=state,
    )
    middleware = ToolcribMiddleware(crib, k=k, steps=options)
    agent: Any = create_agent(model, tools, middleware=[middleware])
    began = perf_counter()
    agent.invoke({"messages": [("user", run.task)]}, {"recursion_limit": 5_000})
    return perf_counter() - began


def _tool(name: str, spec: ToolSpec) -> StructuredTool:
    def call(**_: Any) -> str:
        return "done"

    schema = {"type": "object", "properties": {}, **spec.input_schema, "required": []}
    return StructuredTool(
        name=name, description=spec.description or name, args_schema=schema, func=call
    )


def _sizes(tools: Sequence[BaseTool]) -> dict[str, int]:
    """WordPiece tokens of each definition, as OpenAI's models are shown it."""
    pieces = WordPiece(
        json.loads((MODELS_FOLDER / DEFAULT_MODEL / "tokenizer.json").read_bytes()), None
    )
    made = {tool.name: json.dumps(convert_to_openai_tool(tool)) for tool in tools}
    return {name: len(pieces.encode(text).ids) for name, text in made.items()} | {SEARCH.name: 0}


def _report(counts: Counts, took_s: float, runs: int) -> str:
    calls, firsts, asked = counts.calls, max(counts.firsts, 1), len(counts.sizes)
    found, firsts_found = counts.shown + counts.found, counts.firsts_shown + counts.firsts_found
    middle, most = statistics.median(counts.sizes), max(counts.sizes)
    rows = {
        "runs; calls of known tools; first uses": f"{runs}; {calls}; {counts.firsts}",
        "calls whose tool is shown": f"{counts.shown / calls:.1%}",
        "... or found by a search before": f"{found / calls:.1%}",
        "first uses whose tool is shown": f"{counts.firsts_shown / firsts:.1%}",
        "... or found by a search before it": f"{firsts_found / firsts:.1%}",
        "searches a run": f"{counts.searched / runs:.1f}",
        "tools shown, middle; most": f"{middle:g}; {most}",
        "requests; of them behind a change": f"{asked}; {counts.changes / asked:.1%}",
        "tokens of the first tools, a run": f"{statistics.mean(counts.tokens_first):.0f}",
        "tokens of added tools, a run": f"{statistics.mean(counts.tokens_added):.0f}",
        "milliseconds a request": f"{took_s / asked * 1000:.0f}",
    }
    return "\n".join(f"{name}: {value}" for name, value in rows.items())


if __name__ == "__main__":
    main()
