"""Language of a text, a test for English, and English words for words of other languages.

English is recognised by script, and by the commonest words of a language (Grefenstette 1995,
"Comparing two language identification schemes"): no model, microseconds, and names or ids in an
English request weigh nothing.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache, lru_cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

from toolcrib.caches import cached_texts
from toolcrib.errors import EncoderError
from toolcrib.text import LETTERS, SPACELESS, TWO_LETTERS, tokenise

_WORDS = {
    "es": """al algo algún alguna como cómo con cual cuál cuando cuándo cuántas cuántos cuánto de
        debo del desde donde dónde el ella en entre es esa ese esta está están estas este esto
        favor fue ha hace hay hasta hoy la las le les lo los mañana más mi mis muy necesito nos
        nueva nuevo otra otro para pero por porque puede puedes puedo que qué quiero quién se si
        sin sobre son su sus también te tengo tiene todas todo todos tu un una uno unos y ya yo""",
    "pt": """ainda amanhã ao aos as até com como da das de depois do dos e é ela ele em entre essa
        esse esta está este estou eu favor foi há hoje isso já mais mas me meu meus minha muito na
        não nas no nos nova novo numa o onde os ou outra para pela pelo pelos por porque posso
        preciso pode qual quais quando quanto quantos que quem quero se sem ser seu só sobre
        sua são também tem tenho toda todas todo todos um uma umas você""",
    "fr": """ai ainsi alors au aujourd aussi aux avec avez avoir bien ce cela ces cet cette chez
        combien comme comment dans de depuis des donc du elle elles en entre est et être faire fait
        faut il ils je jusqu la le les leur leurs lui ma mais me mes moi mon ne nos notre nous
        nouveau nouvelle où ou par pas peut peux plus pour pourquoi près quand que quel quelle
        quels qui quoi sa sans se sera ses si son sont suis sur ta te tes toi ton tous tout toute
        toutes très tu un une veux voir vos votre vous""",
    "de": """aber alle allen als am an auch auf aus bei bin bis bitte das dass dem den denn der des
        die diese diesem diesen dieser dieses du durch ein eine einem einen einer eines er es für
        gegen gibt hat hatte habe haben heute ich ihm ihn ihr ihre im in ist ja kann kannst kein
        keine können mal man mehr meine meinem meinen meiner mich mir mit morgen muss nach nicht
        noch nur ob oder schon sein seine sich sie sind soll über um und uns unser unsere unter
        viele vom von vor wann warum welche wenn wer werden wie wieder wir wird wo zu zum zur""",
    "it": """agli al alla alle anche che chi ci come con cosa da dal dalla degli dei del della delle
        devo di domani dove e è ed fare gli ha hai ho i il in io la le lo loro ma mi mia mio nel
        nella non nostro o oggi ogni per perché più posso prossimo puoi quale quali quando quanto
        quanti quella quello questa questo se si sono su sul sulla tra tutte tutti tutto un una uno
        voglio vorrei""",
    "nl": """aan al alle als bij dan dat de deze die dit doen door dus een en er geen haar heb
        hebben heeft het hij hoe hun ik in is je kan kun kunt laat maar me met mij mijn moet naar
        niet nog nu of om onder ons onze ook op over te tot uit van vandaag veel voor waar wanneer
        wat welke wel wie wij wil worden zal ze zijn zo zonder""",
    "sv": """alla att av de den denna det detta dig din du där efter eller en ett från för ha hade
        har hur här i idag imorgon inte jag kan kommer man med men mig min mina mot måste mycket
        många när nu och om på sedan sig ska skulle som så till under upp ut utan vad var vi vid
        vilka vill är över""",
    "da": """af alle at blev de den der det dig din du efter eller en er et fra for før ha har hvad
        hvem hvis hvor hvordan hvornår i ikke jeg kan man med meg men mig min mit nå når og om op
        på skal som til ud uden var ved vi vil være""",
    "pl": """aby ale być był by bez ci czy dla do dziś gdzie go i ich ile ja jak jaki jaka jakie
        jest jestem jutro już kiedy kto które który mam mi mnie mogę może moje mój mi na nie niż
        o od oraz po pod proszę przed przez przy są się ten też to tylko tym w wszystkie z za ze
        że żeby""",
    "tr": """acaba ama bana ben bir biraz bu bugün bunu da daha de değil en gibi göre her hiç için
        ile ise kaç kadar ki kim mi mı mu mü nasıl ne neden nerede o olan olarak olan sonra şu tüm
        var ve veya ya yarın yok""",
    "ro": """acest această ai al am ar are as care ce cu cum de din după este fi fost în îmi la
        lui mai mea meu mi mine nu o pe pentru să sau se sunt și toate un una unde vreau""",
    "cs": """aby ale ani asi až bez bude by být co dnes do ho i já jak jaká jaké jako je jeho jejich
        jen ještě jsem jsou k kde kdo kdy která které který mám mi mně moje může na ne nebo není o
        od po pod pro proč prosím před při s se si tak také ten to u už v ve všechny z za ze že
        zítra""",
    "id": """ada agar akan aku anda apa apakah atau bagaimana bisa dan dari dengan di hari ini itu
        jika juga kami kapan karena ke kepada mana mereka oleh pada saya sebuah semua sudah tidak
        tolong untuk yang""",
    "vi": """anh ba bạn cái cho có của cùng các được đã đang để gì hãy hôm khi không là làm một mai
        mỗi này những nào ở ra sẽ tất thế thì tôi trong từ và vào về với""",
    "fi": """ei ja jos kaikki kanssa kuin kun minulle minun mitä missä mutta myös nyt olen on onko
        paljonko se sekä tai tämä tänään voitko että""",
    "hu": """a az és egy ez hogy nem is van meg mi mit hol ki kell csak már vagy ha de nekem kérem
        holnap mennyi""",
}
"""Commonest words of languages in Latin letters; words that are English too are not counted."""

_COMMON_ENGLISH = """
    a about above add after again ago all am an and any anyone anything are around as ask at away
    back be because been before being between best both but buy by call can cancel change check
    compare could create day delete did different do does doing don done down each email else
    every everyone everything file find first for from get give go going good got had has have he
    hello help her here hey hi him his hour how i if in info information into is it its just keep
    know last latest let like list little ll local look made make many maybe me mean message mind
    minute month more most much must my name near need new next nice no not now of off ok okay old
    on once one only open or order other our out over own page pay people place play please price
    put question read really recent remind report right run said same save say search see send
    set shall she should show similar since so some someone something song soon start status still
    stop such sure take tell text than thank thanks that the their them then there these they
    thing things think this those through till time to today together tomorrow tonight too top
    translate try turn two under until up update us use user using ve version very view want was
    way we week weekend well were what when where whether which while who whom whose why will with
    within without won work would write year yes yesterday yet you your yours"""
_ENGLISH = frozenset(_COMMON_ENGLISH.split())

_ENGLISH_NAMES = frozenset(
    ("ai", "die", "fi", "ist", "las", "los", "non", "os", "pod", "ten", "til")
)
"""English words, names and abbreviations among the words of other languages."""

_OTHER_WORDS = {
    word for word in " ".join(_WORDS.values()).split() if len(word) > 1
} - _ENGLISH_NAMES
_FOREIGN_ONLY, _ENGLISH_ONLY = _OTHER_WORDS - _ENGLISH, _ENGLISH - _OTHER_WORDS
_NOT_PROSE = re.compile(
    r"`[^`]{0,500}`|\"[^\"]{0,1000}(?:\"|$)|“[^”]{0,500}”|«[^»]{0,500}»|(?<!\w)'[^'\n]{3,500}'(?!\w)"
    r"|(?<![!-~])(?=[!-~]*[/\\@_=<>{}\d])[!-~]+"
)
"""Quotations, code, addresses and numbers, which belong to no language."""

MAX_LANGUAGE_CHARS = 1_000
MIN_FOREIGN_LETTERS = 2
FOREIGN_WORD_MIN_WORDS = 4
"""One word of another language among fewer may be a name."""


def _prose_words(text: str) -> tuple[str, list[str]]:
    """Prose of a text, without code and quotations, and its words."""
    prose = _NOT_PROSE.sub(" ", text[:MAX_LANGUAGE_CHARS])
    return prose, [word.casefold() for word in LETTERS.findall(prose)]


def _count(words: Iterable[str], among: Collection[str]) -> int:
    return sum(word in among for word in words)


# Both the encoder and the classifier of a turn ask for the same text.
@cached_texts(32, MAX_LANGUAGE_CHARS)
def is_english(text: str) -> bool:
    """True unless a text is clearly in another language than English."""
    prose, words = _prose_words(text)
    english, foreign = _count(words, _ENGLISH_ONLY), _count(words, _FOREIGN_ONLY)
    if not prose.isascii():
        strange = [sum(not _is_latin(letter) for letter in word) for word in words]
        spoken = sum(spoken_words(word) for word, n in zip(words, strange, strict=True) if n)
        # Names in Latin letters are no sign of English, and English sentences hold foreign names.
        if sum(strange) >= MIN_FOREIGN_LETTERS and spoken > english:
            return False
    return foreign <= english or (foreign == 1 and len(words) < FOREIGN_WORD_MIN_WORDS)


@lru_cache(maxsize=4096)
def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith(("LATIN", "FULLWIDTH LATIN"))


LANGUAGES = (
    *("ar", "bg", "bn", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he"),
    *("hi", "hr", "hu", "id", "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro"),
    *("ru", "sk", "sl", "sr", "sv", "th", "tr", "uk", "ur", "vi", "zh"),
)
"""Recognised languages, ISO 639-1. The model knows more; some differ from these by few words."""

ENCODED_LANGUAGES = ("en", "de", "es", "fr", "pt", "it", "nl", "pl", "ru", "zh", "ja", "ko")
"""Languages that the encoder of `toolcrib-multilingual` reads."""

ENCODED_SCRIPTS = ("LATIN", "CYRILLIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "FULLWIDTH LATIN")
"""Scripts of `ENCODED_LANGUAGES`, as the names of their letters begin."""

ENGLISH_ODDS, COMMON_WORD_ODDS = 2.0, 5.0
"""Prior odds of English, as other languages use its words as terms, and odds for each common word.
Chosen on requests of at most four words: 5 % of the English ones are taken for another language,
4 % of the other ones for English (36 % if common words alone decide)."""

MIN_LANGUAGE_WORDS = 3
MIN_LANGUAGE_PROBABILITY = 0.7

_SPACELESS = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
_CODE = re.compile(r"`[^`]{0,500}`|(?<!\S)(?=\S*[/\\@_=<>{}\d])\S+")
"""Code, addresses and numbers, which belong to no language."""

SPACELESS_LETTERS_PER_WORD = 2


@cached_texts(1_024, MAX_LANGUAGE_CHARS)
def is_likely_english(text: str) -> bool:
    """True if a text is likelier English than another of `ENCODED_LANGUAGES`.

    Stricter than `is_english`, for models that read all of these languages: a short request may
    have no common word. Needs the extra `context`.
    """
    if not is_english(text):
        return False
    prose, words = _prose_words(text)
    if not TWO_LETTERS.search(prose):
        return True
    chances = dict(_identifier().rank(prose))
    more = _count(words, _ENGLISH_ONLY) - _count(words, _FOREIGN_ONLY)
    odds = ENGLISH_ODDS * COMMON_WORD_ODDS**more
    return odds * chances["en"] >= max(chances[each] for each in ENCODED_LANGUAGES)


@cached_texts(1_024, MAX_LANGUAGE_CHARS)
def is_in_encoded_script(text: str) -> bool:
    """True unless most letters of a text are in a script of none of `ENCODED_LANGUAGES`."""
    letters = "".join(_prose_words(text)[1])
    return letters.isascii() or 2 * sum(map(_is_encoded, letters)) >= len(letters)


@lru_cache(maxsize=4096)
def _is_encoded(letter: str) -> bool:
    return unicodedata.name(letter, "").removeprefix("HALFWIDTH ").startswith(ENCODED_SCRIPTS)


def spoken_words(word: str) -> int:
    """Number of words in one run of letters: more than one in a script without spaces."""
    return max(1, len(_SPACELESS.findall(word)) // SPACELESS_LETTERS_PER_WORD)


def language_of(text: str) -> str | None:
    """The language as ISO 639-1; None for less than three words, and in case of doubt.

    Always None without the extra `context`.
    """
    prose = _CODE.sub(" ", text[:MAX_LANGUAGE_CHARS])
    known = (len(words.findall(prose)) for words in (TWO_LETTERS, _SPACELESS))
    identifier = _identifier() if any(count >= MIN_LANGUAGE_WORDS for count in known) else None
    if identifier is None:
        return None
    language, probability = identifier.classify(prose)
    return language if probability >= MIN_LANGUAGE_PROBABILITY else None


@cache
def _identifier() -> Any:
    try:
        langid: Any = import_module("py3langid.langid")
    except ImportError:
        return None
    identifier = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    identifier.set_languages(LANGUAGES)
    return identifier


# -- lexicon ------------------------------------------------------------------------------------

STEMMERS = {
    "de": "german",
    "es": "spanish",
    "fr": "french",
    "it": "italian",
    "ja": "none",
    "ko": "none",
    "nl": "dutch",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "zh": "none",
}
"""Snowball's stemmers by language."""

_HANGUL = re.compile("[\uac00-\ud7af]{3,}")


def terms(text: str, language: str) -> list[str]:
    """Stems of a text; for Korean words pairs of syllables, since particles follow the words."""
    found: list[str] = []
    for term in tokenise(text, STEMMERS[language]):
        if _HANGUL.fullmatch(term):
            found += map("".join, pairwise(term))
        elif not term.isdigit() and (len(term) > 1 or SPACELESS.search(term)):
            found.append(term)
    return found


class Lexicon:
    """English words by language and term, from a file that `scripts/fit_lexicon.py` wrote.

    A query in another language can then match tools by words (dictionary-based query translation,
    Pirkola et al. 2001).

    Needs the extra `context`.

    Raises:
        EncoderError: the file cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._words: dict[str, dict[str, str]] = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise EncoderError(f"{path} cannot be read as a lexicon: {error}") from error

    def english(self, text: str) -> str:
        """English words for a text in another language, in its order; may be empty."""
        ranked = _identifier().rank(text[:MAX_LANGUAGE_CHARS])
        language = next(each for each, _ in ranked if each in self._words)
        words = self._words[language]
        found = (words[term] for term in terms(text, language) if term in words)
        return " ".join(dict.fromkeys(found))
