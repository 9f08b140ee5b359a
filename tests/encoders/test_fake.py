"""The shipped double keeps the contract, counts what it is asked, and never changes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.encoders.conformance import DenseEncoderContract
from toolcrib.encoders.base import DenseEncoder
from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import SettingsError


class TestDeterministicEncoder(DenseEncoderContract):
    """Hashed trigrams."""

    @pytest.fixture(scope="class")
    @classmethod
    def encoder(cls) -> DenseEncoder:
        return DeterministicEncoder()


def test_texts_that_share_trigrams_are_nearer_than_texts_that_do_not() -> None:
    encoder = DeterministicEncoder(256)
    query = encoder.encode_query("send email")
    near, far = encoder.encode_documents(["sending emails", "restart the machine"])
    assert query @ near > 0.5 > query @ far


def test_a_vector_is_the_same_on_every_machine() -> None:
    assert DeterministicEncoder(8).name != DeterministicEncoder(16).name
    vector = DeterministicEncoder(8).encode_query("aBc")
    # CRC-32 of "  a", " ab", "abc" and "bc ", modulo 8: 6, 0, 2 and 0.
    assert np.allclose(vector, np.array([2, 0, 1, 0, 0, 0, 1, 0]) / np.sqrt(6))


def test_it_counts_what_it_encoded_and_not_what_it_refused() -> None:
    encoder = DeterministicEncoder()
    encoder.encode_documents(["a", "b"])
    encoder.encode_query("c")
    with pytest.raises(TypeError):
        encoder.encode_documents("one text")
    assert (encoder.encoded_documents, encoder.encoded_queries) == (2, 1)


@pytest.mark.parametrize("dimensions", [0, -1])
def test_a_width_below_one_is_refused(dimensions: int) -> None:
    with pytest.raises(SettingsError, match="at least one"):
        DeterministicEncoder(dimensions)
