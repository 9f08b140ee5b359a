"""Language: what an English model cannot read is told, and nothing else."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders import language
from toolcrib.encoders.language import (
    is_english,
    is_likely_english,
    language_of,
)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "42",
        "git status",
        "Rechnung",
        "play Despacito by Luis Fonsi",
        "translate `wo ist der Bahnhof und wie komme ich hin` for me",
        'what does "je ne sais pas ce que c\'est" mean',
        "add 田中さん to my contacts",
        "what does привет mean in English?",
        "Send 王小明 the invoice",
        "der die das",
    ],
)
def test_what_is_english_or_may_be(text: str) -> None:
    assert is_english(text) is (text != "der die das")


@pytest.mark.parametrize(
    "text",
    [
        "где мой заказ",
        "送信して",
        "أين طلبي",
        "¿dónde está mi pedido?",
        "请帮团队T12345预订会议室",
        "请打开Visual Studio Code",
        "отправь файл report.pdf в Slack",
        "Slack で #general に送信して",
    ],
)
def test_script_and_common_words_tell_another_language(text: str) -> None:
    assert not is_english(text)


@pytest.mark.parametrize(
    "text",
    [
        "Naładuj elektryka do 90 procent",
        "Synonimy do słowa upał",
        "silencia música",
        "riprendi la musica",
        "baisse volume",
        "pausiere die Wiedergabe",
        "prosseguir o temporizador",
        "zet muziek harder",
        "Rechnung",
    ],
)
def test_a_text_that_only_may_be_english_is_likelier_in_another_language(text: str) -> None:
    assert is_english(text)
    assert not is_likely_english(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "T12345", "git status", "restart the payments pod", "mute the TV", "traffic"),
        *("tags_edit", "trello_get_cards", "Validate SPL tokens"),
    ],
)
def test_names_codes_and_english_are_likely_english(text: str) -> None:
    assert is_likely_english(text)


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    assert is_english(text) in {True, False}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("could you tell me where the invoices of last month are", "en"),
        ("Kannst du mir bitte sagen, wo die Rechnungen vom letzten Monat liegen?", "de"),
        ("¿Dónde están las facturas del mes pasado, por favor?", "es"),
        ("où se trouvent les factures du mois dernier", "fr"),
        ("Где находятся счета за прошлый месяц?", "ru"),
        ("先月の請求書はどこにありますか", "ja"),
    ],
)
def test_a_sentence_is_of_a_language(text: str, code: str) -> None:
    assert language_of(text) == code


@pytest.mark.parametrize(
    "text", ["", "retry policy", "ok", "12 34 56", "a b c", "`for x in y: pass`"]
)
def test_where_there_are_not_three_words_there_is_none(text: str) -> None:
    assert language_of(text) is None


def test_addresses_and_code_have_no_say() -> None:
    text = "where is the file /srv/rechnungen/monat.txt and `das_ist_code()` at http://a.example/wo"
    assert language_of(text) == "en"


def test_without_the_extra_no_language_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    identify = language._identifier.__wrapped__  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(language, "_identifier", identify)
    assert language_of("could you tell me where the invoices of last month are") is None
