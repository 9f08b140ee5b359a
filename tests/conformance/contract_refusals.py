"""What every crib says to what it cannot do: the same errors, in the same words."""

from __future__ import annotations

import pytest

from tests.conformance.contract_tools import TOOLS
from toolcrib import Equals, Not, Passage, Range

WRONG = {
    "an empty query": lambda crib: crib.find_tools(""),
    "a query of white space": lambda crib: crib.find_tools(" \n\u2003"),
    "no tool at all": lambda crib: crib.find_tools("mail", 0),
    "fewer than none": lambda crib: crib.find_tools("mail", -3),
    "as many as nothing tells": lambda crib: crib.find_tools("mail", "auto"),
    "no such order": lambda crib: crib.find_tools("mail", order="name"),
    "no such form": lambda crib: crib.find_tools("mail", token_budget=50, form="signatures"),
    "a part of a token": lambda crib: crib.find_tools("mail", token_budget=99.5),
    "an empty task": lambda crib: crib.find_tools("mail", task=" "),
    "a least in words": lambda crib: crib.find_tools("mail", least=".3"),
    "needs of numbers": lambda crib: crib.find_tools(needs=[1]),
    "needs as one text": lambda crib: crib.find_tools(needs="mail"),
    "calls of numbers": lambda crib: crib.find_tools("mail", called=[1]),
    "a filter on no field": lambda crib: crib.find_tools("mail", where=Equals("naem", "x")),
    "a range of words": lambda crib: crib.find_tools("mail", where=Not(Range("server", gt=1))),
    "an equal number": lambda crib: list(crib.list_tools(where=Equals("cost_estimate", "1"))),
    "an unknown tool": lambda crib: crib.get_tool("mail/sned_mail"),
    "nothing like any": lambda crib: crib.get_tool("zzz"),
    "no id": lambda crib: crib.get_tool(""),
    "an id of numbers": lambda crib: crib.get_tool(3),
    "ids of numbers": lambda crib: crib.check_tools("mail/send_mail", 3),
    "a list after a number": lambda crib: list(crib.list_tools(after=3)),
    "a search in no scope": lambda crib: crib.find_tools("mail", scope={"servers": ["mail"]}),
    "a gate in words": lambda crib: crib.find_tools("mail", gate="no"),
    "an explanation in words": lambda crib: crib.find_tools("mail", explain="yes"),
    "an unknown tool to go": lambda crib: crib.remove_tools("mail/sned_mail"),
    "no id to go": lambda crib: crib.remove_tools(""),
    "a question without words": lambda crib: crib.find_knowledge("?! …"),
    "an empty question": lambda crib: crib.find_knowledge(""),
    "a question of numbers": lambda crib: crib.find_knowledge(3),
    "a context in words": lambda crib: crib.find_knowledge("mail", context="agile"),
    "a class of numbers": lambda crib: crib.classify(3, "mail"),
    "no passage": lambda crib: crib.find_knowledge("mail", 0),
    "passages as many as needed": lambda crib: crib.find_knowledge("mail", "auto"),
    "collections as one text": lambda crib: crib.find_knowledge("mail", collections="house"),
    "no token": lambda crib: crib.find_knowledge("mail", token_budget=0),
    "a question to nobody": lambda crib: crib.find_knowledge("mail", collections=["post_rule"]),
    "a turn as an object": lambda crib: crib.route({"text": "mail"}),
    "a turn whose tools are one text": lambda crib: crib.route("mail", shown="mail/send_mail"),
    "a turn for no passage": lambda crib: crib.route("mail", passages=0),
    "a turn to nobody": lambda crib: crib.route("mail", collections=["post_rules", "a b"]),
    "an unknown collection": lambda crib: crib.remove_docs("post_rule"),
    "documents of an unknown one": lambda crib: crib.remove_docs("post_rule", "a.md"),
    "what is no collection": lambda crib: crib.remove_docs("a/b"),
    "documents of no collection": lambda crib: crib.remove_docs("", "a.md"),
    "no name of a collection": lambda crib: crib.index_passages([Passage("a b", "a.md", "x")]),
    "objects of no format": lambda crib: crib.index_tools([print], format="nope"),
    "tools of no format": lambda crib: crib.index_tools(TOOLS[3], format="nope"),
    "passages that are none": lambda crib: crib.index_passages([{"text": "x"}]),
    "passages as one text": lambda crib: crib.index_passages("house"),
    "no list of passages": lambda crib: crib.index_passages(5),
    "a title as one text": lambda crib: crib.index_passages([Passage("a", "a.md", "x", "Title")]),
    "a text of bytes": lambda crib: crib.index_passages([Passage("a", "a.md", b"x")]),
    "a passage of no document": lambda crib: crib.index_passages([Passage("a", None, "x")]),
    "a place in words": lambda crib: crib.index_passages([Passage("a", "a.md", "x", (), "1")]),
    "a list of documents": lambda crib: crib.remove_docs("post_rules", ["a.md"]),
    "a question in no scope": lambda crib: crib.find_knowledge("mail", scope={"servers": ["a"]}),
    "a scope of another kind": lambda crib: crib.list_collections(scope={"collections": ["a"]}),
    "a collection that is none": lambda crib: crib.add_collections("house"),
    "overlays as one text": lambda crib: crib.index_tools(TOOLS[3], overlays="o.yaml"),
    "tools that are nowhere": lambda crib: crib.index_tools("none.json", "nope.yaml"),
    "documents that are nowhere": lambda crib: crib.index_docs("none.md", collection="post"),
    "tools pruned by no source": lambda crib: crib.index_tools(prune=True),
    "tools pruned by an empty list": lambda crib: crib.index_tools([], prune=True),
    "documents pruned by no source": lambda crib: crib.index_docs(collection="post", prune=True),
    "a turn for no tool": lambda crib: crib.route("mail", k=0),
    "an unknown tool that failed": lambda crib: crib.alternates("mail/sned_mail", "mail"),
    "no id that failed": lambda crib: crib.alternates("", "mail"),
    "a number that failed": lambda crib: crib.alternates(3, "mail"),
    "hints as one text": lambda crib: crib.guidance("mail", given="doom-loop"),
    "no alternate": lambda crib: crib.alternates("mail/send_mail", "mail", k=0),
    "nothing said": lambda crib: crib.feedback("d-1"),
    "something unknown said": lambda crib: crib.feedback("d-1", tool="mail/send_mail"),
    "a route that is none": lambda crib: crib.feedback("d-1", route="there"),
    "tools that are no list": lambda crib: crib.feedback("d-1", tools=5),
}


class Refusals:
    @pytest.fixture(scope="class")
    @classmethod
    def asked(cls, new_both):
        """Filled once: what is refused changes nothing."""
        both = new_both()
        both(lambda crib: crib.index_tools(*TOOLS[:3]))
        passage = Passage("post_rules", "a.md", "At most thirty kilograms.")
        both(lambda crib: crib.index_passages([passage]))
        return both

    @pytest.mark.parametrize("ask", WRONG.values(), ids=WRONG.keys())
    def test_what_cannot_be_done_is_told_alike(self, asked, ask):
        assert asked.fails(ask).text
        assert asked(lambda crib: crib.facets())["tools"] == 3
