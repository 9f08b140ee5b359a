"""The language is told where the text is long enough, and left open where it is not."""

from __future__ import annotations

import sys

import pytest

from toolcrib.router.context import phrases
from toolcrib.router.context.phrases import language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("could you tell me where the invoices of last month are", "en"),
        ("Kannst du mir bitte sagen, wo die Rechnungen vom letzten Monat liegen?", "de"),
        ("¿Dónde están las facturas del mes pasado, por favor?", "es"),
        ("où se trouvent les factures du mois dernier", "fr"),
        ("Где находятся счета за прошлый месяц?", "ru"),
        ("先月の請求書はどこにありますか", "ja"),
    ],
)
def test_a_sentence_is_of_a_language(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize(
    "text", ["", "retry policy", "ok", "12 34 56", "a b c", "`for x in y: pass`"]
)
def test_where_there_are_not_three_words_there_is_none(text):
    assert language_of(text) is None


def test_addresses_and_code_have_no_say():
    text = "where is the file /srv/rechnungen/monat.txt and `das_ist_code()` at http://a.example/wo"
    assert language_of(text) == "en"


def test_without_the_extra_no_language_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "py3langid.langid", None)
    monkeypatch.setattr(phrases, "_identifier", phrases._identifier.__wrapped__)
    assert language_of("could you tell me where the invoices of last month are") is None
