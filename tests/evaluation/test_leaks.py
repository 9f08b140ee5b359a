"""How much a data set gives away: the share of queries that spell the right tool's name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.evaluation.dataset import LabelledQuery
from toolcrib.evaluation.leaks import LeakReport, name_leak
from toolcrib.records import ToolSpec

PRICE = ToolSpec(name="get_stock_price", id="price")
MAIL = ToolSpec(name="sendMail", id="mail")
TOOLS = (PRICE, MAIL)


def query(text, *relevant):
    return LabelledQuery(
        "q", text, relevant=dict.fromkeys(relevant, 1.0), answerable=bool(relevant)
    )


def leak(text, *relevant):
    return name_leak([query(text, *relevant)], TOOLS)


@pytest.mark.parametrize(
    "text",
    ["get_stock_price ACME", "please GET_STOCK_PRICE.", "(get_stock_price)", "a get_stock_price"],
)
def test_a_name_is_spelt_literally_whatever_its_case_and_punctuation(text):
    assert leak(text, "price") == LeakReport(1, 1)


@pytest.mark.parametrize(
    "text",
    ["Get stock price for ACME", "the getStockPrice", "get-stock-price", "GET\nstock  price"],
)
def test_a_name_spelt_as_words_is_no_literal_leak(text):
    assert leak(text, "price") == LeakReport(0, 1)


def test_camel_case_is_taken_apart():
    assert leak("send mail to Ada", "mail") == LeakReport(0, 1)
    assert leak("sendmail to Ada", "mail") == LeakReport(1, 0)


@pytest.mark.parametrize(
    "text", ["budget_stock_prices", "get the stock price", "get stock prices", "stock price", ""]
)
def test_parts_of_a_name_and_longer_words_are_none(text):
    assert leak(text, "price") == LeakReport(0, 0)


def test_the_name_of_another_tool_is_none():
    assert leak("sendMail and send mail", "price") == LeakReport(0, 0)


def test_one_of_several_relevant_tools_is_enough():
    assert leak("sendMail", "price", "mail") == LeakReport(1, 1)
    assert leak("send mail", "price", "mail") == LeakReport(0, 1)


def test_shares_are_of_the_answerable_queries():
    queries = [
        query("get_stock_price", "price"),
        query("get stock price", "price"),
        query("what does ACME cost", "price"),
        query("what is ACME worth", "price"),
        query("get_stock_price of nothing"),
    ]
    assert name_leak(queries, TOOLS) == LeakReport(literal=0.25, as_words=0.5)


def test_without_answerable_queries_nothing_leaks():
    assert name_leak([], TOOLS) == LeakReport(0, 0)
    assert leak("get_stock_price") == LeakReport(0, 0)


def test_labels_without_a_tool_are_passed_over():
    assert leak("get_stock_price", "gone") == LeakReport(0, 0)


def test_names_in_other_scripts_and_with_signs_are_found():
    tools = [ToolSpec(name="天气", id="w"), ToolSpec(name="C++ (run)", id="c")]
    queries = [query("查一下 天气", "w"), query("use c++ (run) now", "c")]
    assert name_leak(queries, tools).literal == 1


def test_a_note_is_only_written_above_one_in_a_hundred():
    assert LeakReport(0.01, 0.01).note == ""
    assert LeakReport(0.0, 0.0234).note == (
        "name leak: 0.0% of the answerable queries spell a relevant tool's name, "
        "2.3% spell it as words"
    )


WORDS = st.lists(st.from_regex(r"[a-z]{2,8}", fullmatch=True), min_size=1, max_size=4)


@given(name=WORDS, before=WORDS, after=WORDS)
def test_whatever_stands_around_it_a_name_is_found(name, before, after):
    tools = [ToolSpec(name="_".join(name), id="t")]
    around = [" ".join(before), None, " ".join(after)]
    for spelt, literal in (("_".join(name), True), (" ".join(name), len(name) == 1)):
        text = " ".join(part or spelt for part in around)
        report = name_leak([query(text, "t")], tools)
        assert report.as_words == 1
        assert report.literal == 1 or not literal
