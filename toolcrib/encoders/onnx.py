"""ONNX models of our own format: the encoder that ships in the package, and rerankers beside it.

A model is a folder with `model.onnx`, `tokenizer.json` and `card.json`, run straight on
onnxruntime: fastembed could run the same files, and costs 1.2 s of imports where this costs 0.2 s.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from toolcrib.encoders.base import (
    ClauseEncoder,
    FloatArray,
    LanguageBound,
    Reranker,
    finite_scores,
    readable,
    readable_all,
    unit_rows,
)
from toolcrib.encoders.loading import DIGEST_DIGITS, LoadOnce, open_session
from toolcrib.encoders.wordpiece import WordPiece, is_wordpiece
from toolcrib.errors import EncoderError
from toolcrib.extras import import_extra

__all__ = [
    "DEFAULT_MODEL",
    "MAX_CLAUSES",
    "MODELS",
    "BundledEncoder",
    "BundledReranker",
    "Card",
    "Model",
    "clauses",
    "is_english",
    "open_model",
    "read_card",
    "usable_cores",
]

DEFAULT_MODEL = "toolcrib-encoder"
MODELS = Path(__file__).parent / "models"

VECTOR, TOKENS = "sentence_embedding", "token_embeddings"
MIN_CLAUSES = 2
MIN_TOKENS = 3
"""A text's first and last mark, and something between them; a clause of fewer is not looked at."""

MAX_CLAUSES = 6
"""Each costs a search of the dense leg; of more, the longest are kept."""

_CUT = re.compile(
    # One mark and one space at a time: runs of either must not cost the square of their length.
    r"[.;:?!,]\s|\n|\s(?=(?:and|then|also|after|afterwards|before|but|so|plus|finally)\s)",
    re.IGNORECASE,
)

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


class _Bundled:
    """What encoder and reranker have in common: a folder, and texts that run one by one.

    Every text runs alone, on one core, and several texts run on `threads` cores at once (0: all
    that this process may use). Nothing is padded, and no result can depend on its neighbours,
    as it does where int8 is scaled by a whole batch: a tool that is indexed again gets the
    vector that it had. Against padded batches this costs a little where texts are short, and
    gains much where they are long.

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self._threads = threads or usable_cores()
        self._card = read_card(folder)
        self._model = LoadOnce(lambda: open_model(folder, self._card))

    @property
    def name(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return self._card.identity

    def _each(self, work: Callable[[_Item], _Found], items: Sequence[_Item]) -> Iterable[_Found]:
        if len(items) <= 1 or self._threads == 1:
            return map(work, items)
        with ThreadPoolExecutor(self._threads, "toolcrib-encode") as pool:
            return pool.map(work, items)


class BundledEncoder(_Bundled, ClauseEncoder, LanguageBound):
    """A `DenseEncoder` from a model folder; the one that ships in the package without one.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) and gives
    `sentence_embedding` (float32 [1, dimensions]); where it gives `token_embeddings` (float32
    [1, tokens, dimensions]) too, queries of several clauses are seen clause by clause.
    Texts run one by one, on `threads` cores at once (0: all that this process may use).

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    def __init__(self, folder: Path | None = None, threads: int = 0) -> None:
        super().__init__(folder or MODELS / DEFAULT_MODEL, threads)

    @property
    def dimensions(self) -> int:
        return self._card.dimensions

    def reads(self, text: str) -> bool:
        return not self._card.english or is_english(text)

    def encode_query(self, text: str) -> FloatArray:
        return self._encode(readable(text))

    def encode_clauses(self, text: str) -> FloatArray:
        """Encode a query and its clauses: float32 [1 + clauses, dimensions], L2-normalised.

        All come of one pass: a clause's vector is the mean of its tokens as the whole query
        shapes them (late chunking, Guenther et al. 2024). One clause alone has no second row.

        Raises:
            TypeError, EncoderError: as `encode_query`.
        """
        query = readable(text)
        spans, model = clauses(query), self._model()
        if len(spans) < MIN_CLAUSES or TOKENS not in model.outputs:
            return self._encode(query)[np.newaxis]
        encoded = model.tokenizer.encode(query)
        whole, tokens = model.run(encoded.ids, [VECTOR, TOKENS])
        pooled = [tokens[0, rows].mean(axis=0) for rows in _rows(encoded.offsets, spans)]
        if len(pooled) < MIN_CLAUSES:
            pooled = []
        rows = np.vstack([whole, *pooled])
        return unit_rows(rows, len(rows), self.dimensions, self.name)

    def encode_documents(self, texts: Sequence[str]) -> FloatArray:
        documents = readable_all(texts)
        vectors = np.empty((len(documents), self.dimensions), dtype=np.float32)
        for row, vector in enumerate(self._each(self._encode, documents)):
            vectors[row] = vector
        return vectors

    def _encode(self, text: str) -> FloatArray:
        model = self._model()
        (vectors,) = model.run(model.tokenizer.encode(text).ids, [VECTOR])
        return unit_rows(vectors, 1, self.dimensions, self.name)[0]


class BundledReranker(_Bundled, Reranker):
    """A `Reranker` from a model folder, as `toolcrib train reranker` makes it.

    The graph takes `input_ids` and `attention_mask` (int64 [1, tokens]) of a query and a text,
    and gives `logit` (float32 [1]). Pairs run one by one, on `threads` cores at once.

    Raises:
        EncoderError: `card.json` cannot be read or lacks something.
    """

    def score(self, query: str, texts: Sequence[str]) -> FloatArray:
        question, documents = readable(query), readable_all(texts)
        scores = list(self._each(partial(self._score, question), documents))
        return finite_scores(scores, len(documents), self.name)

    def _score(self, query: str, text: str) -> float:
        model = self._model()
        (logits,) = model.run(model.tokenizer.encode(query, text).ids, ["logit"])
        return float(logits[0])


def clauses(text: str) -> list[tuple[int, int]]:
    """Start and end of each clause, in order, without the white space around it.

    `book a table, then text Ann` asks for two things. Cut at punctuation followed by white space
    and before conjunctions: no grammar, which would cost more than the encoder. What a cut tears
    apart is still whole in the query's own vector.
    """
    ends = [found.end() for found in _CUT.finditer(text)]
    spans = [
        (start + len(part) - len(part.lstrip()), start + len(part.rstrip()))
        for start, end in zip([0, *ends], [*ends, len(text)], strict=True)
        if (part := text[start:end]).strip()
    ]
    if len(spans) <= MAX_CLAUSES:
        return spans
    longest = sorted(spans, key=lambda span: span[0] - span[1])[:MAX_CLAUSES]
    return sorted(longest)


def _rows(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The tokens of each clause; those of next to no tokens, such as `Hi,`, are left out."""
    inside = range(1, len(offsets) - 1)  # the first and the last are marks, not text
    found = [
        [token for token in inside if start <= offsets[token][0] and offsets[token][1] <= end]
        for start, end in spans
    ]
    return [rows for rows in found if len(rows) >= MIN_TOKENS]


@dataclass(frozen=True, slots=True)
class Card:
    """What `card.json` says of a model; `digest` is the SHA-256 of its weights.

    `english`: its `languages` are English alone. A card may lack them: nothing is known then.
    """

    name: str
    dimensions: int
    max_tokens: int
    digest: str
    english: bool = False

    @property
    def identity(self) -> str:
        """The model's name and the first digits of its weights' digest."""
        return f"{self.name}@{self.digest[:DIGEST_DIGITS]}"


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A model that is loaded: its tokenizer, which truncates, and its onnxruntime session."""

    folder: Path
    tokenizer: Any
    session: Any
    outputs: frozenset[str]

    def run(self, tokens: Sequence[int], outputs: Sequence[str]) -> list[FloatArray]:
        """What the graph gives for one text's tokens, each with a first dimension of 1.

        Raises:
            EncoderError: it cannot be run.
        """
        ids = np.array([tokens], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
        try:
            return self.session.run(outputs, feeds)
        except Exception as error:  # onnxruntime's own classes share no base
            raise EncoderError(f"{self.folder / 'model.onnx'} cannot be run: {error}") from error


def open_model(folder: Path, card: Card) -> Model:
    """Load tokenizer and graph.

    Raises:
        EncoderError: one of the files cannot be loaded.
    """
    # One thread a run: a short query gains nothing from a second, which spins between nodes.
    one = {"intra_op_num_threads": 1, "inter_op_num_threads": 1}
    session = open_session(folder / "model.onnx", **one)
    outputs = frozenset(str(output.name) for output in session.get_outputs())
    tokenizer = _open_tokenizer(folder / "tokenizer.json", card.max_tokens)
    return Model(folder, tokenizer, session, outputs)


def read_card(folder: Path) -> Card:
    """Read `card.json`.

    Raises:
        EncoderError: it cannot be read, or lacks something.
    """
    path = folder / "card.json"
    try:
        card: dict[str, Any] = json.loads(path.read_bytes())
        read = Card(
            name=str(card["name"]),
            dimensions=int(card["dimensions"]),
            max_tokens=int(card["max_tokens"]),
            digest=str(card["sha256"]["model.onnx"]),
            english=card.get("languages") == ["en"],
        )
    except (OSError, ValueError, OverflowError) as error:
        raise EncoderError(
            f"{folder} is not a model folder: card.json cannot be read ({error}); "
            "it must hold card.json, model.onnx and tokenizer.json"
        ) from error
    except (KeyError, TypeError) as error:
        raise EncoderError(
            f"{path} lacks something or has it in another form ({error}); it must hold name, "
            "dimensions, max_tokens and sha256 with model.onnx"
        ) from error
    if read.dimensions < 1 or read.max_tokens < MIN_TOKENS:
        raise EncoderError(
            f"{path} says {read.dimensions} dimensions and {read.max_tokens} tokens; at least 1 "
            f"and {MIN_TOKENS} are needed"
        )
    return read


def _open_tokenizer(path: Path, max_tokens: int) -> Any:
    """Ours for a BERT's WordPiece, else that of the package `tokenizers`, which reads all kinds."""
    try:
        document = json.loads(path.read_bytes())
        if is_wordpiece(document):
            return WordPiece(document, max_tokens)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EncoderError(f"{path} cannot be loaded: {error}") from error
    feature = f"a model with a {document['model']['type']} tokenizer ({path.parent})"
    tokenizers = import_extra("tokenizers", feature, "tokenizers")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise EncoderError(f"{path} cannot be loaded: {error}") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_tokens)
    return tokenizer


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# -- language -------------------------------------------------------------------------------------
#
# Told by script, and by the commonest words of a language (Grefenstette 1995, "Comparing two
# language identification schemes"): no model, microseconds, and names or ids in an English request
# weigh nothing.

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
"""The commonest words of languages in Latin letters; those that English has too do not count."""

_COMMON = """
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
_ENGLISH = frozenset(_COMMON.split())

_NAMES = frozenset(("ai", "die", "fi", "ist", "las", "los", "non", "os", "pod", "ten", "til"))
"""English words, names and abbreviations; single letters are of every language."""

_ELSEWHERE = {word for word in " ".join(_WORDS.values()).split() if len(word) > 1} - _NAMES
_FOREIGN, _OURS = _ELSEWHERE - _ENGLISH, _ENGLISH - _ELSEWHERE
_NO_PROSE = re.compile(
    r"`[^`]{0,500}`|\"[^\"]{0,1000}(?:\"|$)|“[^”]{0,500}”|«[^»]{0,500}»|(?<!\w)'[^'\n]{3,500}'(?!\w)"
    r"|(?<!\S)(?=\S*[/\\@_=<>{}\d])\S+"
)
"""What is quoted, and code, addresses and numbers, which are of no language."""

_PROSE_WORD = re.compile(r"[^\W\d_]+")
MAX_LANGUAGE_CHARS = 1_000
LEAST_LETTERS = 2
LEAST_WORDS = 4
"""One word of another language among fewer may be a name."""


def is_english(text: str) -> bool:
    """Whether a text is English, or may be: false only where another language is plain."""
    prose = _NO_PROSE.sub(" ", text[:MAX_LANGUAGE_CHARS])
    if prose.isascii():
        other = 0
    else:
        letters = [letter for letter in prose if letter.isalpha()]
        other = sum(not _is_latin(letter) for letter in letters)
        if other >= LEAST_LETTERS and 2 * other > len(letters):
            return False
    words = [word.casefold() for word in _PROSE_WORD.findall(prose)]
    foreign = sum(word in _FOREIGN for word in words)
    english = sum(word in _OURS for word in words)
    return foreign <= english or (foreign == 1 and len(words) < LEAST_WORDS)


@lru_cache(maxsize=4096)
def _is_latin(letter: str) -> bool:
    return letter.isascii() or unicodedata.name(letter, "").startswith(("LATIN", "FULLWIDTH LATIN"))
