"""Lexicon: English words for the words of other languages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolcrib.encoders.lexicon import Lexicon, terms
from toolcrib.errors import EncoderError

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
