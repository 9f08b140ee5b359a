"""Personal data and secrets with their checks, and the sensitivity that they make."""

from __future__ import annotations

import sys

import pytest

from toolcrib.context.cues import load_cues
from toolcrib.context.entities import EntityFinder
from toolcrib.context.pii import PERSONAL, grade_sensitivity, personal_entities, secrets
from toolcrib.errors import MissingExtraError, SettingsError
from toolcrib.records import Entity
from toolcrib.text import split_words


def of_type(kind, text, region=None):
    entities = {*personal_entities(text, region), *secrets(text)}
    return sorted(entity.text for entity in entities if entity.type == kind)


TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9mLW5vdGhpbmc"  # {"alg":"HS256"}
KEYS = (
    *("AKIA" + "Z" * 16, "ghp_" + "a1" * 18, "github_pat_" + "a1" * 12, "glpat-" + "a1" * 10),
    *("sk-" + "proj-a1" * 4, "AIza" + "a1" * 17 + "b", "npm_" + "a1" * 18, "hf_" + "abcde" * 6),
    *("xoxb-" + "12345-67890-abcdef", TOKEN),
    *("hf_" + "a1" * 17, "tc_" + "a1" * 6 + "_" + "a1" * 32, "dapi" + "a1" * 16),
    *("gsk_" + "a1" * 26, "xai-" + "a1" * 40, "pplx-" + "a1" * 24, "r8_" + "a1" * 18),
    *("lin_api_" + "a1" * 20, "ntn_" + "a1" * 21 + "b", "figd_" + "a1" * 20, "hvs." + "a1" * 45),
    *("glsa_" + "a1" * 16 + "_" + "a1" * 4, "dckr_pat_" + "a1" * 13 + "b", "sbp_" + "a1" * 20),
    *("GOCSPX-" + "a1" * 14, "HRKU-" + "a1" * 18, "NRAK-" + "A1" * 13 + "B", "key-" + "a1" * 16),
    *("pat" + "a1" * 7 + "." + "a1" * 32, "ATATT3" + "a1" * 60, "AGE-SECRET-KEY-1" + "A1" * 29),
    *("PMAK-" + "a1" * 12 + "-" + "a1" * 17, "sntryu_" + "a1" * 32),
)
LABEL = "RSA PRIVATE KEY-----"
BLOCKS = (
    f"-----BEGIN {LABEL}\nDEK-Info: AES-256-CBC,0A\n\nMIIE\n-----END {LABEL}",
    f"-----BEGIN {LABEL}\n{'a1' * 32}\n{'b2' * 32}",
    f"-----BEGIN {LABEL}\\n{'a1' * 32}\\n{'b2' * 32}",
    "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 1\na1b2\nPrivate-MAC: a1b2",
)
NO_SECRETS = (
    *("the password is required", "reset the password: how do I do that", "token: expired"),
    *("password = ${DB_PASSWORD}", "password: <your password>", "password=aaaaaaaa1"),
    "write ${API_TOKEN:-default}",
    *("api_key = os.environ['KEY_1']", "secret: ********", "password=xxxxxxxx1"),
    *("token: string", "client_secret = get_secret(42)", "password: a1"),
    *("password: 'must be at least 8 characters'", "pass 1234567 to the function"),
    *("compass: north-by-northwest2", "Unexpected token: StartArray."),
    *("a bearer of the news", "Basic authentication-of-a-reader", "cache-key-" + "a1" * 16),
)


FOUND = {
    "email": {  # has a host with a top level
        "write to ann@example.com.": ["ann@example.com"],
        "'ann.b+news@mail.example.co.uk', please": ["ann.b+news@mail.example.co.uk"],
        "Jürgen@müller.example": ["Jürgen@müller.example"],
        "clone git@example.com:team/project": [],
        "user@localhost, @ann, a @ b.com": [],
    },
    "card": {  # has a known length and the right check digit
        "4111 1111 1111 1111": ["4111 1111 1111 1111"],
        "card 378282246310005.": ["378282246310005"],
        "4111-1111-1111-1111": ["4111-1111-1111-1111"],
        "5555555555554444 and 30569309025904": ["30569309025904", "5555555555554444"],
        "4111 1111 1111 1112": [],
        "9111111111111111": [],
        "id-4111111111111111": [],
        "411111111111111111111": [],
    },
    "iban": {  # has the right check digits
        "to DE89 3704 0044 0532 0130 00 today": ["DE89 3704 0044 0532 0130 00"],
        "pay gb33bukb20201555555555": ["gb33bukb20201555555555"],
        "DE89 3704 0044 0532 0130 00 now": ["DE89 3704 0044 0532 0130 00"],
        "DE89-3704-0044-0532-0130-00": ["DE89-3704-0044-0532-0130-00"],
        "DE89 3704 0044 0532 0130 01": [],
        "AB12 test case five": [],
    },
    "ssn": {  # can be given
        "it is 536-90-4399": ["536-90-4399"],
        "SSN: 536904399": ["536904399"],
        "social security number 536 90 4399": ["536 90 4399"],
        "it is 666-90-4399": [],
        "part 536904399": [],
    },
    "ip": {  # can be
        "ping 10.0.0.1, then 203.0.113.7.": ["10.0.0.1", "203.0.113.7"],
        "the net 10.0.0.0/24": ["10.0.0.0/24"],
        "on ::1 and fe80:0:0:0:0:0:0:1": ["::1", "fe80:0:0:0:0:0:0:1"],
        "2001:db8::ff00:42:8329": ["2001:db8::ff00:42:8329"],
        "version 1.2.3.4 and 300.1.1.1": [],
        "at 10:30:15, std::vector, a::b": [],
    },
    "address": {  # is a number with a street
        "12 Mill Lane, Bath": ["12 Mill Lane"],
        "to 221b Baker Street please": ["221b Baker Street"],
        "Hauptstraße 5": ["Hauptstraße 5"],
        "in rue de la Paix 8": ["rue de la Paix 8"],
        "at rue de Rivoli, 75001 Paris": ["rue de Rivoli, 75001"],
        "12 avenue des Champs-Élysées": ["12 avenue des Champs-Élysées"],
        "5 place d'Italie, and Via Garibaldi 12": ["5 place d'Italie", "Via Garibaldi 12"],
        "abito in via Garibaldi 12": ["via Garibaldi 12"],
        "connect via port 8080, via Slack 3 times": [],
        "Hauptstr. 5": ["Hauptstr. 5"],
        "P.O. Box 881": ["P.O. Box 881"],
        "step 3 and the road ahead": [],
        "we are 3 weeks down the road": [],
    },
    "national_id": {  # needs letters or marks where no name leads to it
        "RCCMNL83S18D969H": ["RCCMNL83S18D969H"],
        "390.533.447-05 was charged": ["390.533.447-05"],
        "RCCMNL83S18D969G": [],
        "order 44051401359, part 111222333": [],
        "a souvenir 2 95 10 99 126 111 93": [],
        # A county that the rules do not list.
        "order 829999199003071238": [],
        "身份证 829999199003071238": ["829999199003071238"],
    },
    "secret": {  # has the format of a key, or stands behind a word for secrets
        **{f"this one, {key} , leaked": [key] for key in KEYS},
        **{f"it is {block} and more words": [block] for block in BLOCKS},
        "curl -H 'Authorization: Bearer q8x42abq8x42abq8'": ["q8x42abq8x42abq8"],
        "Basic YW5hOmh1bnRlcjIh": ["YW5hOmh1bnRlcjIh"],
        "https://a.example/x?sv=1&sig=" + "a1" * 20 + "&se=2": ["a1" * 20],
        "my password is Sommer2024!": ["Sommer2024!"],
        "password for the vpn is 'fake99pass'": ["fake99pass"],
        "API_KEY=9f8e7d6c5b4a": ["9f8e7d6c5b4a"],
        'api-key: "9f8e7d6c5b4a"': ["9f8e7d6c5b4a"],
        "{'client_secret': 'q8!x-42ab'}": ["q8!x-42ab"],
        "token := tk42-zx81-qq": ["tk42-zx81-qq"],
        "the token is tk42zx81qq.": ["tk42zx81qq"],
        'db_password => "p4ssw0rd-x"': ["p4ssw0rd-x"],
        'password "q8x-42ab"': ["q8x-42ab"],
        **{text: [] for text in NO_SECRETS},
    },
}


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [(kind, *case) for kind, cases in FOUND.items() for case in cases.items()],
)
def test_personal_data_and_secrets_are_known_by_their_shape(kind, text, expected):
    assert of_type(kind, text) == expected


@pytest.fixture(params=["by every country's rules", "by form"])
def rules(request, monkeypatch):
    """How telephone numbers are checked: with the extra `context`, and without."""
    if request.param == "by form":
        monkeypatch.setitem(sys.modules, "phonenumbers", None)


@pytest.mark.usefixtures("rules")
@pytest.mark.parametrize(
    ("text", "region", "expected"),
    [
        ("+1 416-555-0142 or +919820012345", None, ["+1 416-555-0142", "+919820012345"]),
        ("+0 123 456 789, +1 123 456 7890 and +12345678", None, []),
        ("reach 212-055-0142", "CA", ["212-055-0142"]),
        ("room 212-055-0142", "CA", []),
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
        ("電話は03-1234-5678です", None, ["03-1234-5678"]),
        ("090-1234-5678에 전화해 줘", None, ["090-1234-5678"]),
        ("我的手机是13800138000谢谢", None, ["13800138000"]),
        ("订单13800138000到哪了", None, []),
    ],
)
def test_a_telephone_number_is_valid_or_said_to_be_one(text, region, expected):
    assert of_type("phone", text, region) == expected


def test_a_region_whose_rules_are_not_installed_is_an_error_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    EntityFinder(region="US")
    with pytest.raises(MissingExtraError, match=r"context.region: DE .*'toolcrib\[context\]'"):
        EntityFinder(region="DE")


@pytest.mark.parametrize("region", ["UK", "us", "XX"])
def test_a_region_that_does_not_exist_is_an_error(region):
    with pytest.raises(SettingsError, match=f"context.region: .*{region!r}"):
        EntityFinder(region=region)


NATIONAL_IDS = [
    ("Meine Steuer-ID lautet 36 574 261 809", "36 574 261 809"),
    ("el cliente con DNI 54362315-K", "54362315-K"),
    ("su NIE es X-2482300W", "X-2482300W"),
    ("mon numéro de sécu : 2 95 10 99 126 111 93", "2 95 10 99 126 111 93"),
    ("codice fiscale RCCMNL83S18D969H", "RCCMNL83S18D969H"),
    ("o NIF dela é 501 964 843", "501 964 843"),
    ("CPF 390.533.447-05", "390.533.447-05"),
    ("mijn BSN is 111222333", "111222333"),
    ("PESEL 44051401359", "44051401359"),
    ("мой ИНН 123456789047", "123456789047"),
    ("身份证号360426199101010071", "360426199101010071"),
    ("マイナンバーは6214 9832 0257", "6214 9832 0257"),
    ("주민등록번호는 900315-1012340", "900315-1012340"),
]


@pytest.mark.parametrize(("text", "number"), NATIONAL_IDS)
def test_a_national_number_has_its_check_digit(text, number, monkeypatch):
    at = next(at for at in range(len(number) - 2, 0, -1) if number[at].isdigit())
    wrong = number[:at] + str((int(number[at]) + 1) % 10) + number[at + 1 :]
    assert of_type("national_id", text) == [number]
    assert of_type("national_id", text.replace(number, wrong)) == []
    monkeypatch.setitem(sys.modules, "stdnum", None)
    assert of_type("national_id", text) == [number]


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("email", "メールはann@example.comです", "ann@example.com"),
        ("card", "카드는 4111111111111111입니다", "4111111111111111"),
        ("iban", "送金先はDE89370400440532013000です", "DE89370400440532013000"),
        ("ip", "サーバ10.0.0.1に接続して", "10.0.0.1"),
        ("ssn", "番号は219-09-9998です", "219-09-9998"),
        ("national_id", "マイナンバーは621498320257です", "621498320257"),
        ("secret", f"鍵は{KEYS[4]}です", KEYS[4]),
    ],
)
def test_words_of_a_script_without_spaces_may_touch_personal_data(kind, text, expected):
    assert of_type(kind, text) == [expected]


def test_what_leads_to_a_person_is_personal_and_a_machine_is_not():
    assert {"email", "phone", "card", "iban", "ssn", "national_id", "address"} == PERSONAL


CUES = load_cues()


def sensitivity_of(text, entities):
    return grade_sensitivity(entities, CUES.indexes.sensitivity.find(split_words(text)))[:2]


def level_of(text):
    return sensitivity_of(text, EntityFinder().find(text))[0]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("what is a closure in Python", "public"),
        ("what is our retry policy", "internal"),
        ("why does 10.0.0.7 not answer", "internal"),
        ("write to ann@example.com", "pii"),
        ("my password is Sommer2024!", "pii"),
        ("the diagnosis of a patient", "pii"),
        ("how much insulin may I give", "safety_critical"),
        ("our robot arm ignores the emergency stop, tell ann@example.com", "safety_critical"),
    ],
)
def test_the_highest_level_counts(text, level):
    assert level_of(text) == level


@pytest.mark.parametrize(
    ("name", "read"), [("send_mail", ("internal", ("holds tool",))), ("find", ("public", ()))]
)
def test_a_tools_name_is_the_companys_own_unless_it_is_a_plain_word(name, read):
    assert sensitivity_of(f"{name} it", (Entity("tool", name, 0, len(name)),)) == read


def test_a_signal_names_the_type_and_the_phrase_and_no_personal_data():
    text = "ann@example.com, bob@example.com, her home address"
    entities = EntityFinder().find(text)
    assert sensitivity_of(text, entities) == ("pii", ("holds email", "says 'home address'"))
