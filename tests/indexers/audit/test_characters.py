"""Hidden characters are told apart, decoded and shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from toolcrib.indexers.audit.characters import (
    HIDDEN,
    decode_selectors,
    decode_tags,
    decode_zero_width,
    strays,
    visible,
)


def test_hidden_characters_are_spelled_with_how_many_there_are():
    assert visible("a\u200bb\u2063\u2063\u2063c") == "a⟨U+200B⟩b⟨U+2063 ×3⟩c"
    assert visible("a\x1b[8mb") == "a⟨U+001B⟩[8mb"


def test_an_excerpt_is_one_line_of_readable_length():
    assert visible("a\nb\t c") == "a b c"
    assert visible("word " * 100) == ("word " * 100)[:159] + "…"


@given(st.text())
def test_nothing_hidden_is_left_in_what_is_shown(text):
    shown = visible(text)
    assert HIDDEN.search(shown) is None
    assert len(shown) <= 160


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E)))
def test_tags_say_what_was_written_in_them(text):
    assert decode_tags("".join(chr(0xE0000 + ord(letter)) for letter in text)) == text


@given(st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1))
def test_selectors_say_what_was_written_in_them(text):
    def selector(octet):
        return chr(0xFE00 + octet) if octet < 16 else chr(0xE0100 + octet - 16)

    assert decode_selectors("".join(map(selector, text.encode()))) == text
    halves = [half for octet in text.encode() for half in divmod(octet, 16)]
    assert decode_selectors("".join(chr(0xFE00 + half) for half in halves)) == text


def test_bits_of_no_width_say_what_was_written_in_them():
    bits = "".join(format(octet, "08b") for octet in b"leak it")
    for pair in ("\u200b\u200c", "\u200c\u200b", "\u2062\u2063"):
        assert decode_zero_width("".join(pair[int(bit)] for bit in bits)) == "leak it"
    assert decode_zero_width("\u200b" * 16) == ""
    assert decode_selectors("\ufe0f" * 3) == ""


def test_marks_of_direction_are_at_home_where_letters_run_from_right_to_left():
    assert strays("שלום\u200f abc") == "שלום abc"
    assert strays("abc\u200f") == "abc\u200f"
    assert strays("שלום\u202e") == "שלום\u202e"
