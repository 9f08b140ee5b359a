"""Contracts of encoders and rerankers, executable: what every model must do, whatever runs it.

To hold a new encoder to it, inherit and supply the fixture `encoder`:

    class TestMyEncoder(DenseEncoderContract):
        @pytest.fixture(scope="class")
        @classmethod
        def encoder(cls) -> DenseEncoder:
            return MyEncoder("my-model")
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from toolcrib.encoders.base import DenseEncoder, FloatArray, Reranker

DOCUMENTS = [
    "Send an e-mail to one or more people, with a subject, a text and attached files.",
    "List the open issues of a repository, newest first.",
    "Create a calendar event with a title, a start, an end and guests.",
    "Turn a text from one language into another.",
    "Get the weather forecast of a place for the next days.",
    "Run a read-only SQL query and return the rows as JSON.",
    "Pay an invoice by bank transfer.",
    "Resize a picture to a width and height in pixels.",
    (
        "Search the web and return titles, addresses and snippets of the best hits. Use it for "
        "anything recent, and prefer the wiki for what the company itself wrote down, such as "
        "policies, minutes of meetings and how a system is set up."
    ),
    "Post a message in a channel of the team chat.",
    "Restart a virtual machine.",
    "Find the fastest way between two addresses by car, train or on foot.",
    "Book leave for an employee and tell the manager.",
    "Show the temperature of every room.",
    "Stop a timer.",
    "Read a file from the shared drive.",
]
TEXTS = ["Send an e-mail.", "Show the temperature of every room of the house.", "Stop a timer."]
"""What a reranker scores."""

QUERIES = ["how warm is the bedroom", "mail the report to Anna", "which bugs are still open"]

SHORTEST_COSINE = 0.98
"""Between a text's vector alone and in a batch: dynamic int8 scales by the whole batch."""


def cosines(left: FloatArray, right: FloatArray) -> FloatArray:
    """Cosine of each row of `left` [n, d] with the same row of `right`: float32 [n]."""
    return np.einsum("ij,ij->i", left, right)


def _top_ten(query: FloatArray, documents: FloatArray) -> list[int]:
    return [int(row) for row in np.argsort(-(documents @ query), kind="stable")[:10]]


class DenseEncoderContract:
    """Every test of the contract; the subclass supplies the fixture `encoder`."""

    @pytest.mark.parametrize("texts", [[], DOCUMENTS[:3]], ids=["none", "three"])
    def test_vectors_are_float32_of_unit_length_and_the_stated_width(
        self, encoder: DenseEncoder, texts: list[str]
    ) -> None:
        vector, rows = encoder.encode_query("list open issues"), encoder.encode_documents(texts)
        assert (vector.dtype, vector.shape) == (np.float32, (encoder.dimensions,))
        assert (rows.dtype, rows.shape) == (np.float32, (len(texts), encoder.dimensions))
        assert np.abs(np.linalg.norm([vector, *rows], axis=1) - 1).max() < 1e-5
        assert np.array_equal(vector, encoder.encode_query("list open issues"))
        assert np.array_equal(rows, encoder.encode_documents(texts))

    def test_documents_keep_their_order_whatever_their_lengths(self, encoder: DenseEncoder) -> None:
        together = encoder.encode_documents(DOCUMENTS)
        backwards = encoder.encode_documents(DOCUMENTS[::-1])[::-1]
        assert cosines(together, backwards).min() >= SHORTEST_COSINE

    def test_a_vector_handed_out_is_not_changed_by_the_next_call(
        self, encoder: DenseEncoder
    ) -> None:
        vector = encoder.encode_query(QUERIES[0])
        kept = vector.copy()
        encoder.encode_query(QUERIES[1])
        assert np.array_equal(vector, kept)

    def test_different_texts_give_different_vectors(self, encoder: DenseEncoder) -> None:
        vectors = encoder.encode_documents(DOCUMENTS)
        assert len(np.unique(vectors, axis=0)) == len(DOCUMENTS)

    def test_a_query_and_a_document_of_one_text_are_comparable(self, encoder: DenseEncoder) -> None:
        rows = encoder.encode_documents(DOCUMENTS)
        assert _top_ten(encoder.encode_query(DOCUMENTS[5]), rows)[0] == 5

    def test_a_text_ranks_alike_encoded_alone_and_in_a_batch(self, encoder: DenseEncoder) -> None:
        together = encoder.encode_documents(DOCUMENTS)
        alone = np.vstack([encoder.encode_documents([text]) for text in DOCUMENTS])
        assert cosines(together, alone).min() >= SHORTEST_COSINE
        for text in QUERIES:
            query = encoder.encode_query(text)
            shared = set(_top_ten(query, together)) & set(_top_ten(query, alone))
            assert len(shared) >= 9

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("", id="empty"),
            pytest.param(" \t\n", id="white space"),
            pytest.param("\x00\x01\x7f", id="control characters"),
            pytest.param("half a \ud83d smile", id="lone surrogate"),
            pytest.param("\udc00\ud800", id="surrogates in the wrong order"),
            pytest.param("Köln 東京 ภาษาไทย हिन्दी עברית العربية", id="many scripts"),
            pytest.param("👩‍👩‍👧 🇪🇺 ❤️", id="joined emoji"),
            pytest.param("e\u0301\u200b\u202e\ufeff", id="combining and invisible"),
            pytest.param("\U0010ffff\uffff", id="noncharacters"),
            pytest.param("[CLS] [SEP] [PAD] <s> </s>", id="a tokenizer's own words"),
            pytest.param("find the invoice of last month " * 3226, id="100,000 characters"),
        ],
    )
    def test_any_unicode_gives_a_unit_vector(self, encoder: DenseEncoder, text: str) -> None:
        vectors = np.vstack([encoder.encode_query(text), encoder.encode_documents([text])])
        assert np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5

    def test_two_halves_of_a_surrogate_pair_are_the_character(self, encoder: DenseEncoder) -> None:
        assert np.array_equal(
            encoder.encode_query("smile \ud83d\ude00"), encoder.encode_query("smile 😀")
        )

    @pytest.mark.parametrize(
        "written", ["FÜHRERSCHEIN UMTAUSCHEN", "ｆüｈｒｅｒｓｃｈｅｉｎ ｕｍｔａｕｓｃｈｅｎ"]
    )
    def test_a_text_in_capitals_or_full_width_has_the_vector_of_its_plain_form(
        self, encoder: DenseEncoder, written: str
    ) -> None:
        expected = encoder.encode_query("führerschein umtauschen")
        assert np.allclose(encoder.encode_query(written), expected, atol=1e-6)

    @pytest.mark.parametrize("wrong", [None, 7, b"bytes", ["a list"]])
    def test_a_query_that_is_no_text_is_refused(self, encoder: DenseEncoder, wrong: object) -> None:
        with pytest.raises(TypeError, match="text"):
            encoder.encode_query(wrong)  # type: ignore[arg-type]

    @pytest.mark.parametrize("wrong", ["one text", ["text", None], [b"bytes"]])
    def test_documents_that_are_no_list_of_texts_are_refused(
        self, encoder: DenseEncoder, wrong: object
    ) -> None:
        with pytest.raises(TypeError, match="text"):
            encoder.encode_documents(wrong)  # type: ignore[arg-type]

    def test_the_name_is_short_stable_and_not_empty(self, encoder: DenseEncoder) -> None:
        assert encoder.name == encoder.name
        assert 0 < len(encoder.name) < 200

    def test_several_threads_get_what_one_gets(self, encoder: DenseEncoder) -> None:
        expected = [encoder.encode_query(text) for text in QUERIES * 5]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(encoder.encode_query, QUERIES * 5))
        assert np.allclose(found, expected, atol=1e-5)


class RerankerContract:
    """What every reranker must do; the subclass supplies the fixture `reranker`."""

    def test_every_text_gets_one_finite_float32_score(self, reranker: Reranker) -> None:
        scores = reranker.score("how warm is it", TEXTS)
        assert scores.shape == (3,)
        assert scores.dtype == np.float32
        assert np.isfinite(scores).all()
        assert reranker.score("x", []).shape == (0,)
        assert "model@" in reranker.name

    def test_scores_keep_the_order_of_the_texts(self, reranker: Reranker) -> None:
        forth = reranker.score("how warm is it", TEXTS)
        back = reranker.score("how warm is it", TEXTS[::-1])
        assert np.allclose(forth, back[::-1], atol=0.05)

    def test_the_query_counts(self, reranker: Reranker) -> None:
        one, other = (reranker.score(query, TEXTS[:1])[0] for query in ("mail", "weather"))
        assert one != other

    @pytest.mark.parametrize("text", ["", "\x00", "\ud800", "東京 👩‍👩‍👧", "word " * 20_000])
    def test_any_text_gets_a_finite_score(self, reranker: Reranker, text: str) -> None:
        assert np.isfinite(reranker.score(text[:2_000], [text])).all()

    def test_what_is_no_text_is_refused(self, reranker: Reranker) -> None:
        with pytest.raises(TypeError, match="text"):
            reranker.score(None, TEXTS)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="list of texts"):
            reranker.score("x", "one text")
