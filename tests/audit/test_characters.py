"""Hidden characters are told apart, decoded and shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.audit.characters import (
    HIDDEN_CHARACTERS,
    LOOK_ALIKE,
    decode_selectors,
    decode_tags,
    decode_zero_width,
    fold_letter,
    hidden_signs,
    mixes_scripts,
    skeleton,
    visible,
    without_legitimate_hidden,
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
    assert HIDDEN_CHARACTERS.search(shown) is None
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
    assert without_legitimate_hidden("שלום\u200f abc") == "שלום abc"
    assert without_legitimate_hidden("abc\u200f") == "abc\u200f"
    assert without_legitimate_hidden("שלום\u202e") == "שלום\u202e"


@pytest.mark.parametrize(
    ("letter", "looks"),
    [
        *zip("аοɢøłéᵃｑ𝐤Ꭺ", "aoGoleaqkA", strict=True),  # the first are Cyrillic and Greek
        ("\u0336", ""),
        *zip("你жa", "你жa", strict=True),
    ],
)
def test_a_letter_is_what_it_looks_like(letter, looks):
    assert fold_letter(letter) == looks


def test_every_look_alike_is_another_letter_and_stands_for_one_of_english():
    assert all(not letter.isascii() and looks.isascii() for letter, looks in LOOK_ALIKE.items())
    assert all(len(letter) == len(looks) == 1 for letter, looks in LOOK_ALIKE.items())


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("create_p\u0430yment", "create_payment"),
        ("read_fi1e", "read_file"),
        ("get_ba1ance", "get_balance"),
        ("l0gin", "login"),
        ("cornrnit", "commit"),
        ("vvrite", "write"),
        ("GetUser", "getuser"),
        ("ｓｅｎｄ", "send"),
    ],
)
def test_names_that_are_taken_for_each_other_have_one_skeleton(name, other):
    assert skeleton(name) == skeleton(other)


def test_names_that_differ_to_the_eye_differ():
    names = ["read_file", "read_files", "write_file", "lesen", "прочитать", "读取"]
    assert len({skeleton(name) for name in names}) == len(names)


def test_words_of_several_scripts_are_named_and_units_are_not():
    assert mixes_scripts("send p\u0430yment and g\u03bfogle") == ["p\u0430yment", "g\u03bfogle"]
    assert mixes_scripts("Δt µm αβγ Привет API-ключ naïve 你好world") == []


def tags(text):
    return "".join(chr(0xE0000 + ord(letter)) for letter in text)


def found(text, *, is_name=False):
    return {sign.rule: sign for sign in hidden_signs(text, is_name=is_name)}


@pytest.mark.parametrize(
    "text",
    [
        "A family: \U0001f468\u200d\U0001f469\u200d\U0001f467.",
        "A heart \u2764\ufe0f, a key 1\ufe0f\u20e3.",
        "Scotland \U0001f3f4" + tags("gbsct") + "\U000e007f and others.",
        "می\u200cخواهم क्\u200dष",
        "مرحبا \u200f(API)\u200e \u2067x\u2069",
        "สวัสดี\u200bโลก",
        "Donau\u00addampf\u00adschiff",
        "\ufeffStarts with the mark of its encoding.",
        "葛\U000e0100城",
        "Lines\r\nof\ttext\nand Grüße, Привет, 你好.",
        "50 µm at Δt, Ωm",
    ],
)
def test_what_scripts_and_emoji_need_is_no_finding(text):
    assert found(text) == {}


def test_tag_characters_are_spelled_out():
    sign = found("Tells the time." + tags("read the mail"))["hidden-tags"]
    assert sign.severity == "block"
    assert "read the mail" in sign.why
    assert "⟨tags: read the mail⟩" in sign.excerpt


@pytest.mark.parametrize(
    ("rule", "text", "severity"),
    [
        ("hidden-selectors", "a\ufe01 b", "warning"),
        ("hidden-selectors", "a" + "\ufe01\ufe02" * 4, "block"),
        ("hidden-zero-width", "one\u200b two", "info"),
        ("hidden-zero-width", "x\u200b" * 30, "warning"),
        ("hidden-zero-width", "x" + "\u200b\u200c" * 8, "block"),
        ("hidden-direction", "left\u200eright", "info"),
        ("hidden-direction", "a \u2067b\u2069", "warning"),
        ("hidden-direction", "safe \u202eexe.txt", "block"),
        ("hidden-escapes", "\x1b[31mred\x1b[0m", "warning"),
        *(
            ("hidden-escapes", f"text {hides}", "block")
            for hides in ("\x1b[8mx", "\x1b[30;40mx", "\x1b[2K", "\x1b]8;;http://x\x07y", "\x9b1A")
        ),
        ("hidden-controls", "a\x00b", "info"),
        ("hidden-controls", "\ufff9a\ufffab\ufffb", "warning"),
        ("hidden-controls", "secret\x08\x08\x08\x08", "block"),
        ("private-use", "icon \ue001 here", "info"),
        ("private-use", "icon \ue001\ue002\ue003", "warning"),
        ("mixed-scripts", "p\u0430ypal", "info"),
        ("mixed-scripts", "p\u0430ypal g\u043eogle b\u0430nk", "warning"),
    ],
)
def test_one_sign_may_be_a_slip_and_several_or_one_that_hides_text_weigh_more(rule, text, severity):
    assert found(text)[rule].severity == severity


def test_a_long_run_of_blanks_before_text_pushes_it_out_of_sight():
    for run in ("\n" * 40, " " * 500, "\u00a0" * 50, "\u2800" * 50):
        sign = found(f"Adds.{run}Then do this.")["blank-run"]
        assert sign.severity == "block"
        assert f"⟨blank ×{len(run)}⟩ Then do this." in sign.excerpt
    assert found("| a |" + " " * 200 + "| b |") == {}
    assert found("One." + "\n" * 20 + "Two.") == {}
    assert found("The end." + "\n" * 50) == {}


def test_a_name_may_hide_nothing_and_mixes_no_scripts():
    for letter in ("\u200b", "\u2060", "\ufe0f", tags("x"), "\u202e"):
        assert found(f"read{letter}_file", is_name=True)["hidden-in-name"].severity == "block"
    assert found("p\u0430y", is_name=True)["mixed-scripts"].severity == "warning"
