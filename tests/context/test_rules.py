"""Rules: a context by cues alone, deterministic, and honest about what it does not know."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.context.cues import Cues, IntentCues, UrgencyCues, load_cues
from toolcrib.context.entities import EntityFinder
from toolcrib.context.labels import CONTEXT_FIELDS
from toolcrib.context.phrases import Match
from toolcrib.context.rules import (
    Estimate,
    HeuristicDetector,
    estimate,
    follow_up_score,
    meta_of,
    phrase_weights,
    smalltalk_of,
)
from toolcrib.text import split_words

DETECTOR = HeuristicDetector()


TOLD = {
    "intent": {  # by the verb that leads and by phrases
        "What is our retry policy?": "ask",
        "Could you please explain the outbox pattern": "ask",
        "summarise these notes in three sentences": "transform",
        "Hi team, can you translate this paragraph into Dutch": "transform",
        "write a Python function that finds duplicates": "generate",
        "please book a room for four": "generate",
        "plan the move from polling to webhooks, step by step": "plan",
        "why does the build fail since the upgrade": "debug",
        "the import crashes with a KeyError": "debug",
        "review my pull request": "review",
        "I'd like your opinion: is this naming any good?": "review",
    },
    "domain": {  # by the words of a field
        "refactor this class and its unit tests": "code",
        "which clause of the contract covers liability": "legal",
        "move the story to the next sprint": "agile",
        "circuit breaker or bulkhead between the services": "architecture",
        "which endpoint needs the bearer token": "api",
        "refund the customer's last order": "product",
        "look at `getUserById`": "code",
    },
    "urgency": {  # by what is said of time and trouble
        "restart the worker immediately": "high",
        "production outage in both regions": "high",
        "what is an outage": "low",
        "explain this outage right now": "high",
        "send it by Friday": "medium",
        "no rush, but the outage page needs a fix": "low",
        "not urgent: rename the folder": "low",
        "list the folders": "low",
    },
    "need": {  # by what answers the turn
        "send the notes to the squad": "act",
        "how do we run a retro": "know",
    },
}


@pytest.mark.parametrize(
    ("field", "text", "label"),
    [(field, *case) for field, cases in TOLD.items() for case in cases.items()],
)
def test_cues_tell_the_label_of_a_field(field, text, label):
    assert getattr(DETECTOR.detect(text), field) == label


def test_a_request_has_all_its_confidences_and_the_lesser_counts():
    context = DETECTOR.detect("write unit tests for the parser by Friday")
    assert set(context.confidences) == {*CONTEXT_FIELDS}
    assert context.confidence == min(context.confidences["intent"], context.confidences["domain"])


def test_small_talk_has_no_intent_domain_or_need():
    context = DETECTOR.detect("Thank you so much!")
    assert context.smalltalk == "thanks"
    assert context.intent is context.domain is context.need is None
    assert context.confidence == context.confidences["smalltalk"]


def test_where_no_cue_is_heard_there_is_no_label_and_little_confidence():
    context = DETECTOR.detect("purple elephants under moonlight")
    assert (context.intent, context.domain, context.urgency) == (None, None, "low")
    assert context.confidence < 0.5


def test_signals_say_what_was_heard_and_no_personal_data():
    context = DETECTOR.detect("please deploy it immediately and mail ann@example.com")
    assert "intent: 'deploy'" in context.signals
    assert "urgency: 'immediately'" in context.signals
    assert "sensitivity: holds email" in context.signals
    assert not any("ann@" in signal for signal in context.signals)


def test_without_entities_neither_they_nor_personal_data_are_looked_for():
    context = DETECTOR.detect("mail ann@example.com", entities=False)
    assert (context.entities, context.sensitivity) == ((), "public")


def test_the_given_finder_is_used():
    detector = HeuristicDetector(finder=EntityFinder({"team": ["Heron"]}))
    assert [(e.type, e.text) for e in detector.detect("ask Heron").entities] == [("team", "Heron")]


def test_a_request_after_a_long_text_is_heard():
    log = "10:00 worker-1 handled the message\n" * 1000
    assert DETECTOR.detect(f"{log}\nreview this, asap").urgency == "high"
    assert DETECTOR.detect(f"summarise this: {log}").intent == "transform"


def test_other_cues_have_other_labels():
    cues = Cues(
        intents={"buy": IntentCues(leads=("get me",), need="act")},
        domains={"fruit": ("apple",), "tools": ("saw",)},
        urgency=UrgencyCues(high=("hungry",)),
    )
    context = HeuristicDetector(cues).detect("get me apples, I am hungry")
    assert (context.intent, context.domain, context.urgency) == ("buy", "fruit", "high")


@pytest.mark.parametrize("piece", ["and ", "please ", "not ", "hi, ", ".", "why ", "it "])
def test_a_text_of_one_cue_alone_is_read_to_its_end(piece):
    # Every clause begins where the last one's polite words end: no word is passed over twice.
    assert DETECTOR.detect(piece * 20_000).text == piece * 20_000


LABELS = ("code", "api", "legal")
VOTES = st.dictionaries(st.sampled_from(LABELS), st.floats(0, 20), max_size=3)


def match(phrase, *labels):
    return Match(phrase, labels, 0, len(phrase.split()))


def test_a_phrase_votes_once_and_for_several_labels_in_parts():
    found = [match("queue", "code", "api"), match("queue", "code", "api"), match("test", "code")]
    assert phrase_weights(found) == {"code": 1.5, "api": 0.5}


def test_the_label_with_the_most_votes_wins_with_what_spoke_for_it():
    told = estimate({"api": 2.0, "code": 1.0}, LABELS, [match("header", "api"), match("x", "code")])
    assert told.label == "api"
    assert told.signals == ("'header'",)
    assert told.confidence == pytest.approx(math.e**2 / (math.e**2 + math.e + 1))


def test_without_a_vote_there_is_no_label():
    assert estimate({}, LABELS, []) == estimate({"api": 0.0}, LABELS, []) == Estimate(None, 0.3)
    assert estimate({"other": 3.0}, (), []).label is None


@given(VOTES, st.floats(0.1, 5))
def test_a_confidence_is_a_probability_that_grows_with_the_votes_of_the_winner(votes, sharpness):
    told = estimate(votes, LABELS, [], sharpness=sharpness)
    assert 0 < told.confidence <= 1
    if told.label is not None:
        more = {**votes, told.label: votes[told.label] + 1}
        assert estimate(more, LABELS, [], sharpness=sharpness).confidence >= told.confidence


CUES = load_cues()


def leans(text):
    return follow_up_score(split_words(text), CUES)


LEANING = {
    "wholly": (
        *("and for staging?", "what about the other one", "yes", "why?", "in German please"),
        *("the same", "hm and for staging?", "thanks, and for staging?", "oh, what about staging"),
    ),
    "perhaps": (
        *("do the same for team Heron", "send it to Bob in the support team", "then close it"),
        *("and then what happens to orders in flight?", "ok now list branches"),
        "and also, send it to her",
    ),
    "not": (
        *("How do I write a good retro?", "book a room for tomorrow at nine", "", "?!"),
        "deploy the billing service and restart it",
    ),
}


@pytest.mark.parametrize(("kind", "text"), [(kind, t) for kind in LEANING for t in LEANING[kind]])
def test_a_turn_leans_the_more_the_less_it_says_of_its_own(kind, text):
    leaning = leans(text)
    assert kind == ("wholly" if leaning == 1 else "perhaps" if leaning >= 0.5 else "not")


def test_what_refers_back_late_may_refer_to_the_turn_itself():
    early, late = "restart it in the second region", "restart the worker in the region below it"
    assert leans(early) > leans(late) > 0


def told(text):
    return smalltalk_of(split_words(text), CUES.indexes)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("hi", "greeting"),
        ("Good morning, team!", "greeting"),
        *(
            (text, "thanks")
            for text in ("thanks!", "Thank you so much, Corinna", "thanks, Corinna")
        ),
        ("ありがとうございます", "thanks"),
        # Fillers behind small talk ask by a question word or mark alone.
        ("ok what now?", "thanks"),
        ("thanks, and you?", "thanks"),
        ("hey, how did you spend the day?", "assistant"),
        ("ok bye, see you tomorrow", "farewell"),
        ("I'm done, it's time to go", "farewell"),
        ("buenas noches", "farewell"),
        ("who are you?", "assistant"),
        ("hey, are you a human or a bot", "assistant"),
    ],
)
def test_small_talk_is_told_by_kind(text, kind):
    assert told(text).label == kind


@pytest.mark.parametrize(
    "text",
    [
        *("thanks, now deploy it", "hi, the checkout is broken", "hello, where is the invoice"),
        *("good morning, create a ticket", "deploy it", "what is a good greeting for a customer"),
        *("thanks, frobnicate", "good night, lock the front door", "merci, lance les tests"),
        *(
            "谢谢,现在部署",
            "text Ann good night",
            "post 'good morning' in #team",
            "translate “bye”",
        ),
        *("great! what is on today?", "ok what is on today", "hi, is it on? thank you", "", "?!"),
        *("did it work now?", "is that all right?"),
    ],
)
def test_a_turn_that_asks_for_something_is_none(text):
    assert told(text).label is None


SPOKEN = {
    "de": {
        "high": "Bitte sofort den Checkout zurückrollen, niemand kann bezahlen",
        "calm": "Benenn den Ordner um, das eilt nicht",
        "farewell": "Bis dann, schönen Feierabend!",
        "meta": "Wobei kannst du mir eigentlich helfen?",
        "follow_up": "und was ist mit den anderen?",
    },
    "fr": {
        "high": "Redémarre le serveur tout de suite, tous les clients attendent",
        "calm": "Renomme le dossier, ça ne presse pas",
        "farewell": "Bonne soirée, à demain !",
        "meta": "Dis, tu sais faire quoi au juste ?",
        "follow_up": "et pour les autres ?",
    },
    "es": {
        "high": "Arranca el servidor ahora mismo, está caído",
        "calm": "Cambia el título cuando tengas un rato, no hay prisa",
        "farewell": "Hasta mañana, que descanses",
        "meta": "¿En qué me puedes ayudar?",
        "follow_up": "¿y los otros?",
    },
    "pt": {
        "high": "Reinicia o servidor imediatamente, ninguém consegue comprar",
        "calm": "Muda o título quando puder, sem pressa",
        "farewell": "Até amanhã, bom descanso!",
        "meta": "O que você sabe fazer?",
        "follow_up": "e os outros?",
    },
    "it": {
        "high": "Riavvia subito il server, nessuno riesce a pagare",
        "calm": "Sposta la cartella quando hai tempo, non c'è fretta",
        "farewell": "Buona serata, a domani!",
        "meta": "Che cosa sai fare?",
        "follow_up": "e per gli altri?",
    },
    "nl": {
        "high": "Zet de kassa zo snel mogelijk terug, alles ligt plat",
        "calm": "Hernoem de map maar, het heeft geen haast",
        "farewell": "Fijne avond, tot morgen!",
        "meta": "Waar kun je me mee helpen?",
        "follow_up": "en dan de andere?",
    },
    "pl": {
        "high": "Uruchom serwer natychmiast, nikt nie może zapłacić",
        "calm": "Zmień nazwę folderu, nie ma pośpiechu",
        "farewell": "Dobranoc, do jutra!",
        "meta": "W czym możesz mi pomóc?",
        "follow_up": "a co z tym ostatnim?",
    },
    "ru": {
        "high": "Срочно перезапусти сервер, никто не может оплатить",
        "calm": "Переименуй папку, когда будет время, это не срочно",
        "farewell": "До завтра, хорошего вечера!",
        "meta": "А что ты умеешь?",
        "follow_up": "а остальные?",
    },
    "zh": {
        "high": "请马上重启服务器，所有客户都付不了款",
        "calm": "把这个文件夹改个名字，不着急",
        "farewell": "明天见！",
        "meta": "请问你能帮我什么？",
        "follow_up": "剩下的呢？",
    },
    "ja": {
        "high": "至急サーバーを再起動してください",
        "calm": "フォルダの名前を変えておいて、お手すきの際で大丈夫です",
        "farewell": "お疲れ様でした、また明日",
        "meta": "あなたは何ができますか？",
        "follow_up": "残りのは？",
    },
    "ko": {
        "high": "지금 바로 서버 다시 켜 주세요, 결제가 먹통이에요",
        "calm": "폴더 이름 좀 바꿔 줘, 천천히 해도 돼",
        "farewell": "내일 봐요",
        "meta": "너 뭘 할 수 있어?",
        "follow_up": "그럼 나머지는?",
    },
}
"""Sentences of eleven languages, by what they are."""


@pytest.mark.parametrize("language", SPOKEN)
class TestOtherLanguages:
    def test_haste_and_leisure_are_cues(self, language):
        said = SPOKEN[language]
        assert DETECTOR.detect(said["high"]).urgency == "high"
        assert DETECTOR.detect(said["calm"]).urgency == "low"

    def test_a_closing_is_small_talk_and_an_order_is_not(self, language):
        said = SPOKEN[language]
        assert DETECTOR.detect(said["farewell"]).smalltalk == "farewell"
        assert DETECTOR.detect(said["high"]).smalltalk is None

    def test_a_question_about_the_assistant_is_marked(self, language):
        said = SPOKEN[language]
        assert meta_of(split_words(said["meta"]), CUES.indexes)
        assert not meta_of(split_words(said["high"]), CUES.indexes)

    def test_a_follow_up_leans_on_what_was_said(self, language):
        said = SPOKEN[language]
        assert leans(said["follow_up"]) > 0.5 > leans(said["high"])


def test_cues_of_other_languages_leave_english_alone():
    alone = HeuristicDetector(CUES.model_copy(update={"others": ()}))
    for said in ("plan the comment on the leg", "please even out the directive, then resume"):
        assert DETECTOR.detect(said) == alone.detect(said)
