"""Terms become BM25, and the engine scores as we say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.encoders import lexical
from toolcrib.encoders.lexical import LexicalEncoder, LexicalSettings
from toolcrib.errors import SettingsError


def test_a_stemmer_that_there_is_not_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"klingon.*english"):
        LexicalSettings(language="klingon")


def test_the_name_tells_every_setting() -> None:
    names = {
        LexicalEncoder(LexicalSettings(k1=k1, b=b, language=language)).name
        for k1 in (1.2, 1.5)
        for b in (0.5, 0.75)
        for language in ("english", "none")
    }
    assert len(names) == 8


class TestVectors:
    """Terms as sparse vectors that the engine survives."""

    def test_a_document_weighs_each_term_as_bm25_does(self) -> None:
        vector = LexicalEncoder().encode_document({"mail": 2.0, "report": 1.0}, 2.0)
        # Length 3 of average 2: norm = 1.5 * (0.25 + 0.75 * 1.5) = 2.0625.
        expected = [1.0 * 2.5 / (1.0 + 2.0625), 2.0 * 2.5 / (2.0 + 2.0625)]
        assert sorted(vector.values.tolist()) == pytest.approx(expected)
        unknown = LexicalEncoder().encode_document({"mail": 1.0}, 0.0)
        assert unknown.values.tolist() == pytest.approx([1.0])
        assert sorted(LexicalEncoder().encode_query("mail mail report").values) == [1.0, 2.0]
        assert LexicalEncoder().encode_query("?!").indices.shape == (0,)

    @given(st.dictionaries(st.text(min_size=1, max_size=5), st.floats(0.1, 50), max_size=30))
    def test_indices_ascend_and_values_are_finite_and_positive(
        self, counts: dict[str, float]
    ) -> None:
        vector = LexicalEncoder().encode_document(counts, 10.0)
        assert vector.indices.dtype == np.uint32
        assert vector.values.dtype == np.float32
        assert vector.indices.shape == vector.values.shape
        assert (np.diff(vector.indices.astype(np.int64)) > 0).all()
        assert np.isfinite(vector.values).all()
        assert (vector.values > 0).all()

    def test_terms_of_one_dimension_add_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lexical.zlib, "crc32", lambda _: 7)
        vector = LexicalEncoder().encode_terms(["one", "other", "other"])
        assert vector.indices.tolist() == [7]
        assert vector.values.tolist() == [3.0]
