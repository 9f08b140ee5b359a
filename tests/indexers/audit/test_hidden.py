"""What a person cannot see and a model can is found, and what scripts need is left alone."""

from __future__ import annotations

import pytest

from toolcrib.indexers.audit.characters import hidden_signs


def tags(text):
    return "".join(chr(0xE0000 + ord(letter)) for letter in text)


def found(text, *, is_name=False):
    return {sign.rule: sign for sign in hidden_signs(text, is_name=is_name)}


def severity(text, rule):
    return found(text)[rule].severity


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


def test_one_odd_variation_is_a_slip_and_a_run_of_them_a_message():
    assert severity("a\ufe01 b", "hidden-selectors") == "warning"
    assert severity("a" + "\ufe01\ufe02" * 4, "hidden-selectors") == "block"


def test_a_run_of_no_width_can_only_be_a_message():
    assert severity("one\u200b two", "hidden-zero-width") == "info"
    assert severity("x\u200b" * 30, "hidden-zero-width") == "warning"
    assert severity("x" + "\u200b\u200c" * 8, "hidden-zero-width") == "block"


def test_overridden_direction_blocks_and_lone_marks_do_not():
    assert severity("safe \u202eexe.txt", "hidden-direction") == "block"
    assert severity("left\u200eright", "hidden-direction") == "info"
    assert severity("a \u2067b\u2069", "hidden-direction") == "warning"


def test_escapes_that_colour_are_shown_and_those_that_hide_block():
    assert severity("\x1b[31mred\x1b[0m", "hidden-escapes") == "warning"
    for hides in ("\x1b[8mx", "\x1b[30;40mx", "\x1b[2K", "\x1b]8;;http://x\x07y", "\x9b1A"):
        assert severity(f"text {hides}", "hidden-escapes") == "block"


def test_control_characters_are_odd_and_backspaces_rub_out():
    assert severity("a\x00b", "hidden-controls") == "info"
    assert severity("secret\x08\x08\x08\x08", "hidden-controls") == "block"
    assert severity("\ufff9a\ufffab\ufffb", "hidden-controls") in ("info", "warning")


def test_private_use_is_a_fonts_or_a_message():
    assert severity("icon \ue001 here", "private-use") == "info"
    assert severity("icon \ue001\ue002\ue003", "private-use") == "warning"


def test_a_long_run_of_blanks_before_text_pushes_it_out_of_sight():
    for run in ("\n" * 40, " " * 500, "\u00a0" * 50, "\u2800" * 50):
        sign = found(f"Adds.{run}Then do this.")["blank-run"]
        assert sign.severity == "block"
        assert f"⟨blank ×{len(run)}⟩ Then do this." in sign.excerpt
    assert found("| a |" + " " * 200 + "| b |") == {}
    assert found("One." + "\n" * 20 + "Two.") == {}
    assert found("The end." + "\n" * 50) == {}


def test_a_name_may_hide_nothing():
    for letter in ("\u200b", "\u2060", "\ufe0f", tags("x"), "\u202e"):
        assert found(f"read{letter}_file", is_name=True)["hidden-in-name"].severity == "block"


def test_words_of_several_scripts_are_shown_with_how_many_there_are():
    assert severity("p\u0430ypal", "mixed-scripts") == "info"
    assert severity("p\u0430ypal g\u043eogle b\u0430nk", "mixed-scripts") == "warning"
    assert found("p\u0430y", is_name=True)["mixed-scripts"].severity == "warning"
