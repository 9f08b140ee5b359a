"""Language: what an English model cannot read is told, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders import language
from toolcrib.encoders.language import (
    Lexicon,
    is_english,
    is_in_encoded_script,
    is_likely_english,
    language_of,
    terms,
)
from toolcrib.errors import EncoderError


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
    ("text", "expected"),
    [
        ("", True),
        ("¿dónde está mi pedido?", True),
        ("где мой заказ", True),
        ("ｽﾏﾎでﾊﾟｽﾎﾟｰﾄを申請", True),
        ("주문이 어디에 있어요", True),
        ("refund the order of محمد", True),
        ("أين طلبي", False),
        ("मेरा ऑर्डर कहाँ है", False),
        ("πού είναι η παραγγελία μου", False),
        ("คำสั่งซื้อของฉันอยู่ที่ไหน", False),
    ],
)
def test_the_script_of_most_letters_shows_what_no_model_reads(text: str, expected: bool) -> None:
    assert is_in_encoded_script(text) is expected


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


WORDS = {
    "de": {"losch": "delete", "datei": "file", "rechnung": "invoice"},
    "ko": {"파일": "file", "삭제": "delete"},
    "zh": {"文件": "file", "删除": "delete", "删": "remove"},
}


@pytest.fixture
def lexicon(tmp_path: Path) -> Lexicon:
    path = tmp_path / "lexicon.json"
    path.write_text(json.dumps(WORDS), encoding="utf-8")
    return Lexicon(path)


class TestTerms:
    """What is looked up of a text."""

    def test_words_are_stemmed_by_their_language(self) -> None:
        assert terms("Lösche die Datei 7", "de") == ["losch", "die", "datei"]
        assert terms("fichiers", "fr") == terms("fichier", "fr")

    def test_korean_words_are_cut_since_particles_follow_them(self) -> None:
        assert terms("파일을 삭제", "ko") == ["파일", "일을", "삭제"]

    def test_chinese_is_looked_up_by_letters_and_their_neighbours(self) -> None:
        assert {"删除", "删", "文件"} <= set(terms("删除文件", "zh"))


class TestLexicon:
    """English words of a text."""

    def test_words_of_a_text_come_once_in_its_order(self, lexicon: Lexicon) -> None:
        text = "Bitte lösche die alte Datei und noch eine Datei mit der Rechnung"
        assert lexicon.english(text) == "delete file invoice"

    def test_the_languages_words_are_its_own(self, lexicon: Lexicon) -> None:
        assert lexicon.english("그 파일을 삭제해 주세요") == "file delete"
        assert lexicon.english("请把这个文件删除") == "remove file delete"

    def test_unknown_words_have_none(self, lexicon: Lexicon) -> None:
        assert lexicon.english("Guten Morgen zusammen") == ""

    @pytest.mark.parametrize("content", [None, "{"])
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path, content: str | None) -> None:
        path = tmp_path / "lexicon.json"
        if content:
            path.write_text(content, encoding="utf-8")
        with pytest.raises(EncoderError, match=r"lexicon\.json"):
            Lexicon(path)
