"""Mail, telephone, cards, accounts, numbers of persons, addresses: with their checks."""

from __future__ import annotations

import pytest

from toolcrib.router.context.pii import PERSONAL, personal_entities


def found(text, region=None):
    return {(entity.type, entity.text) for entity in personal_entities(text, region)}


def of_type(kind, text, region=None):
    return [entity for type_, entity in sorted(found(text, region)) if type_ == kind]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("write to ann@example.com.", ["ann@example.com"]),
        ("'ann.b+news@mail.example.co.uk', please", ["ann.b+news@mail.example.co.uk"]),
        ("Jürgen@müller.example", ["Jürgen@müller.example"]),
        ("clone git@example.com:team/project", []),
        ("user@localhost, @ann, a @ b.com", []),
    ],
)
def test_a_mail_address_has_a_host_with_a_top_level(text, expected):
    assert of_type("email", text) == expected


@pytest.mark.parametrize(
    ("text", "region", "expected"),
    [
        ("+44 20 7946 0958 is his", None, ["+44 20 7946 0958"]),
        ("ask at (415) 555-2671", "US", ["(415) 555-2671"]),
        ("ask at (415) 555-2671", None, []),
        ("Elif, 0171 5550199, wants it", None, ["0171 5550199"]),
        ("call me on 7805551234", None, ["7805551234"]),
        ("416 60 039 office", None, ["416 60 039"]),
        ("order 2025550123 is late", "US", []),
        ("it took 2024-05-03 12 seconds", None, []),
        ("call 12345", None, []),
        ("version 1.22.333.4444", None, []),
    ],
)
def test_a_telephone_number_is_valid_or_said_to_be_one(text, region, expected):
    assert of_type("phone", text, region) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4111 1111 1111 1111", ["4111 1111 1111 1111"]),
        ("card 378282246310005.", ["378282246310005"]),
        ("4111-1111-1111-1111", ["4111-1111-1111-1111"]),
        ("5555555555554444 and 30569309025904", ["30569309025904", "5555555555554444"]),
        ("4111 1111 1111 1112", []),
        ("9111111111111111", []),
        ("id-4111111111111111", []),
        ("411111111111111111111", []),
    ],
)
def test_a_card_has_a_known_length_and_the_right_check_digit(text, expected):
    assert of_type("card", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("to DE89 3704 0044 0532 0130 00 today", ["DE89 3704 0044 0532 0130 00"]),
        ("pay gb33bukb20201555555555", ["gb33bukb20201555555555"]),
        ("DE89 3704 0044 0532 0130 00 now", ["DE89 3704 0044 0532 0130 00"]),
        ("DE89 3704 0044 0532 0130 01", []),
        ("AB12 test case five", []),
    ],
)
def test_an_account_has_the_right_check_digits(text, expected):
    assert of_type("iban", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("it is 536-90-4399", ["536-90-4399"]),
        ("SSN: 536904399", ["536904399"]),
        ("social security number 536 90 4399", ["536 90 4399"]),
        ("it is 666-90-4399", []),
        ("part 536904399", []),
    ],
)
def test_a_social_security_number_is_one_that_can_be_given(text, expected):
    assert of_type("ssn", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ping 10.0.0.1, then 203.0.113.7.", ["10.0.0.1", "203.0.113.7"]),
        ("the net 10.0.0.0/24", ["10.0.0.0/24"]),
        ("on ::1 and fe80:0:0:0:0:0:0:1", ["::1", "fe80:0:0:0:0:0:0:1"]),
        ("2001:db8::ff00:42:8329", ["2001:db8::ff00:42:8329"]),
        ("version 1.2.3.4 and 300.1.1.1", []),
        ("at 10:30:15, std::vector, a::b", []),
    ],
)
def test_an_ip_address_is_one_that_can_be(text, expected):
    assert of_type("ip", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12 Mill Lane, Bath", ["12 Mill Lane"]),
        ("to 221b Baker Street please", ["221b Baker Street"]),
        ("Hauptstraße 5", ["Hauptstraße 5"]),
        ("36 rue de la Paix 8", ["rue de la Paix 8"]),
        ("P.O. Box 881", ["P.O. Box 881"]),
        ("step 3 and the road ahead", []),
        ("we are 3 weeks down the road", []),
    ],
)
def test_an_address_is_a_number_with_a_street(text, expected):
    assert of_type("address", text) == expected


def test_a_text_without_digits_and_signs_holds_none():
    assert found("please tell Ann that her parcel is late") == set()


def test_what_leads_to_a_person_is_personal_and_a_machine_is_not():
    assert {"email", "phone", "card", "iban", "ssn", "address"} == PERSONAL
