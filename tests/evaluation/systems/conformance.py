"""What every system keeps to, whatever library it drives.

A test class inherits `SystemContract` and gives the fixture `fresh`: a call of it makes a system
that has not indexed anything.
"""

from __future__ import annotations

import math
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.evaluation.systems.samples import OBVIOUS, TOOLS
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import MissingExtraError
from toolcrib.evaluation.systems.base import Answer, System, baseline
from toolcrib.records import ToolSpec

__all__ = ["BaselineContract", "SystemContract", "ids"]

IDS = {spec.id for spec in TOOLS}
AWKWARD = (
    "",
    "   ",
    "?!",
    "qwxyzzy vlorp",
    "x",
    "明日の天気は",
    "🌧️ ☂️",
    "DROP TABLE tools; --" * 50,
)


def ids(answer: Answer) -> list[str]:
    return [tool.id for tool in answer.ranked]


class SystemContract:
    """Finds what is obvious, and never returns what it should not."""

    @pytest.fixture
    def fresh(self) -> Callable[[], System]:
        raise NotImplementedError

    @pytest.fixture
    def system(self, fresh: Callable[[], System]) -> Iterator[System]:
        with closing(fresh()) as made:
            made.index(TOOLS)
            yield made

    def test_the_obvious_tool_comes_first(self, system: System) -> None:
        assert {query: ids(system.search(query, 3))[0] for query in OBVIOUS} == OBVIOUS

    def test_tools_that_are_alike_to_the_letter_are_two(self, fresh: Callable[[], System]) -> None:
        alike = [ToolSpec(name="list_files", server=s, description="List files.") for s in "ab"]
        with closing(fresh()) as system:
            system.index([*TOOLS, *alike])
            assert set(ids(system.search("list files", 2))) == {"a/list_files", "b/list_files"}

    def test_at_most_k_tools_come_back(self, system: System) -> None:
        for k in (0, 1, 3, 10, 1000):
            assert len(system.search("find emails in an inbox", k).ranked) <= min(k, len(TOOLS))

    def test_a_longer_answer_begins_with_the_shorter_one(self, system: System) -> None:
        assert ids(system.search("find recipes", 9))[:1] == ids(system.search("find recipes", 1))

    def test_every_answer_is_a_ranking_of_our_tools(self, system: System) -> None:
        for query in (*OBVIOUS, *AWKWARD):
            found = system.search(query, 10).ranked
            scores = [tool.score for tool in found]
            assert {tool.id for tool in found} <= IDS, query
            assert len({tool.id for tool in found}) == len(found) <= 10, query
            assert scores == sorted(scores, reverse=True), query
            assert all(type(score) is float and math.isfinite(score) for score in scores), query

    def test_a_blank_query_finds_nothing(self, system: System) -> None:
        assert system.search("", 5) == system.search(" \n\t", 5) == Answer(())

    def test_two_systems_of_the_same_tools_answer_alike(
        self,
        system: System,
        fresh: Callable[[], System],
    ) -> None:
        with closing(fresh()) as twin:
            twin.index(TOOLS)
            for query in OBVIOUS:
                assert twin.search(query, 5) == system.search(query, 5) == system.search(query, 5)

    def test_only_tools_that_may_be_returned_come_back_in_the_same_order(
        self,
        system: System,
    ) -> None:
        query, allowed = "find a song or an album", ["mail/search", "media/play_music", "no/such"]
        try:
            among = system.search(query, 10, among=allowed)
        except NotImplementedError:
            pytest.skip("it cannot be restricted")
        whole = ids(system.search(query, len(TOOLS)))
        assert ids(among) == [each for each in whole if each in allowed]
        assert ids(among)[0] == "media/play_music"
        assert ids(system.search(query, 1, among=allowed)) == ["media/play_music"]
        assert ids(system.search(query, 10, among=[])) == []

    def test_a_single_tool_is_enough(self, fresh: Callable[[], System]) -> None:
        with closing(fresh()) as system:
            system.index(TOOLS[:1])
            assert set(ids(system.search("weather forecast", 5))) <= {TOOLS[0].id}

    def test_without_tools_nothing_is_found(self, fresh: Callable[[], System]) -> None:
        with closing(fresh()) as system:
            system.index(())
            assert system.search("anything", 5) == Answer(())

    def test_it_says_what_it_is_and_of_which_version(self, system: System) -> None:
        library, _, number = system.version.rpartition(" ")
        assert library
        assert number[0].isdigit()

    def test_it_can_be_closed_twice(self, fresh: Callable[[], System]) -> None:
        system = fresh()
        system.index(TOOLS)
        system.close()
        system.close()

    def test_nothing_goes_over_the_network(
        self,
        fresh: Callable[[], System],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        asked: list[Any] = []
        monkeypatch.setattr(socket.socket, "connect", lambda _, address: asked.append(address))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *names, **_: asked.append(names))
        with closing(fresh()) as system:
            system.index(TOOLS)
            assert system.search("weather forecast", 3).ranked
        assert asked == []


class BaselineContract(SystemContract):
    """The same for a library, which may not be installed."""

    path: str
    module: str
    extra = "peers"

    @pytest.fixture
    def encoder(self) -> DeterministicEncoder:
        return DeterministicEncoder(512)

    @pytest.fixture
    def fresh(self, encoder: DeterministicEncoder) -> Callable[[], System]:
        pytest.importorskip(self.module)
        return lambda: baseline(self.path)[1](encoder)

    def test_a_missing_library_is_named_with_its_extra(
        self,
        encoder: DeterministicEncoder,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        name, factory = baseline(self.path)
        monkeypatch.setitem(sys.modules, self.module.partition(".")[0], None)
        with pytest.raises(MissingExtraError, match=rf"the baseline '{name}'") as raised:
            factory(encoder)
        assert raised.value.extra == self.extra
