"""Letters that look like those of English are read as them."""

from __future__ import annotations

import pytest

from toolcrib.indexers.audit.characters import (
    LOOK_ALIKE,
    fold_letter,
    mixes_scripts,
    skeleton,
)


@pytest.mark.parametrize(
    ("letter", "looks"),
    [
        ("а", "a"),  # Cyrillic
        ("ο", "o"),  # Greek
        ("ɢ", "G"),
        ("ø", "o"),
        ("ł", "l"),
        ("é", "e"),
        ("ᵃ", "a"),
        ("ｑ", "q"),
        ("𝐤", "k"),
        ("Ꭺ", "A"),
        ("\u0336", ""),
        ("你", "你"),
        ("ж", "ж"),
        ("a", "a"),
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
