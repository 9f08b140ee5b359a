"""Language: what an English model cannot read is told, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders.onnx import is_english


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
        "der die das",
    ],
)
def test_what_is_english_or_may_be(text: str) -> None:
    assert is_english(text) is (text != "der die das")


@pytest.mark.parametrize(
    "text", ["где мой заказ", "送信して", "أين طلبي", "¿dónde está mi pedido?"]
)
def test_script_and_common_words_tell_another_language(text: str) -> None:
    assert not is_english(text)


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    assert is_english(text) in {True, False}
