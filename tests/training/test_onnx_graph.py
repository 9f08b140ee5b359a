"""The graph written by hand says what torch says of the same weights, and int8 stays near it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.encoders.tiny_bert import SMALL, random_weights
from tests.training.tiny import weights
from toolcrib.training.export import Weights
from toolcrib.training.onnx_graph import (
    INPUTS,
    LOGIT,
    OUTPUTS,
    Ranges,
    build,
    layers,
    quantise_weights,
    smoothing,
)

CHANCE = np.random.default_rng(3)
LENGTHS = (31, 5, 12, 2)
IDS = CHANCE.integers(1, SMALL.words, (len(LENGTHS), max(LENGTHS)))
MASK = (np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]).astype(np.int64)
"""A batch of four texts, padded; what stands behind a text's end is noise."""


def run(model: Any, ids: Any, mask: Any) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    found = session.run(names, dict(zip(INPUTS, (ids, mask), strict=True)))
    return dict(zip(names, found, strict=True))


def alone(model: Any, row: int) -> dict[str, Any]:
    """What one text of the batch gives without the others and without padding."""
    ids = IDS[row : row + 1, : LENGTHS[row]]
    return run(model, ids, np.ones_like(ids))


def ranges_of(made: Weights) -> Ranges:
    """The activations of the batch, as the export measures them of its texts."""
    model, graph = build(made.tensors, made.heads, None)
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in graph.taps.values()
    )
    found = run(model, IDS, MASK)
    rows = {site: np.concatenate(found[name]) for site, name in graph.taps.items()}
    return {site: (seen.min(axis=0), seen.max(axis=0)) for site, seen in rows.items()}


def in_torch(made: Weights, kind: str) -> dict[str, Any]:
    """What the class `kind` of transformers gives for the batch, all token types zero."""
    import torch
    import transformers

    config = transformers.BertConfig(
        vocab_size=SMALL.words,
        hidden_size=SMALL.width,
        num_hidden_layers=SMALL.layers,
        num_attention_heads=SMALL.heads,
        intermediate_size=SMALL.intermediate,
        max_position_embeddings=SMALL.tokens,
        num_labels=1,
    )
    model = getattr(transformers, kind)(config).eval()
    missing, unknown = model.load_state_dict(_named(made.tensors, model), strict=False)
    assert not unknown
    assert not [name for name in missing if "pooler" not in name]
    with torch.no_grad():
        return model(torch.from_numpy(IDS), attention_mask=torch.from_numpy(MASK))


def _named(tensors: Mapping[str, Any], model: Any) -> dict[str, Any]:
    import torch

    own = model.state_dict()
    return {
        name if name in own else f"bert.{name}": torch.from_numpy(value)
        for name, value in tensors.items()
    }


@pytest.fixture(scope="module")
def encoder() -> Weights:
    return random_weights()


@pytest.fixture(scope="module")
def reranker() -> Weights:
    return random_weights(cross_encoder=True)


class TestFloat:
    """The graph without ranges: the model itself."""

    def test_an_encoder_gives_the_tokens_that_torch_gives_and_their_mean(
        self, encoder: Weights
    ) -> None:
        model, _ = build(encoder.tensors, encoder.heads, None)
        found = run(model, IDS, MASK)
        expected = in_torch(encoder, "BertModel").last_hidden_state.numpy()
        assert list(found) == list(OUTPUTS)
        for row, length in enumerate(LENGTHS):
            tokens = expected[row, :length]
            assert np.allclose(found["token_embeddings"][row, :length], tokens, atol=1e-4)
            mean = tokens.mean(axis=0)
            unit = mean / np.linalg.norm(mean)
            assert np.allclose(found["sentence_embedding"][row], unit, atol=1e-5)

    def test_a_cross_encoder_gives_one_logit_a_text_as_torch_does(self, reranker: Weights) -> None:
        model, _ = build(reranker.tensors, reranker.heads, None)
        found = run(model, IDS, MASK)
        expected = in_torch(reranker, "BertForSequenceClassification").logits[:, 0].numpy()
        assert list(found) == [LOGIT]
        assert found[LOGIT].shape == (len(LENGTHS),)
        assert np.allclose(found[LOGIT], expected, atol=1e-4)
        assert np.ptp(expected) > 1

    def test_it_has_as_many_layers_as_the_weights(self, encoder: Weights) -> None:
        first = {name: v for name, v in encoder.tensors.items() if "layer.1" not in name}
        assert (layers(encoder.tensors), layers(first)) == (2, 1)
        _, graph = build(first, encoder.heads, None)
        assert list(graph.taps) == ["0.attention", "0.out", "0.up", "0.down"]


class TestInt8:
    """The graph with ranges."""

    def test_vectors_stay_near_the_float_ones(self, encoder: Weights) -> None:
        plain, _ = build(encoder.tensors, encoder.heads, None)
        model, _ = build(encoder.tensors, encoder.heads, ranges_of(encoder))
        names = "sentence_embedding"
        for row in range(len(LENGTHS)):
            assert float(alone(plain, row)[names][0] @ alone(model, row)[names][0]) > 0.99

    def test_logits_stay_near_the_float_ones(self) -> None:
        made = weights(SMALL, cross_encoder=True)
        plain, _ = build(made.tensors, made.heads, None)
        model, _ = build(made.tensors, made.heads, ranges_of(made))
        expected, found = (run(which, IDS, MASK)[LOGIT] for which in (plain, model))
        assert np.abs(found - expected).max() < 0.05 * np.ptp(expected)

    def test_a_text_has_one_vector_whatever_stands_beside_it(self, encoder: Weights) -> None:
        model, _ = build(encoder.tensors, encoder.heads, ranges_of(encoder))
        together = run(model, IDS, MASK)["sentence_embedding"]
        for row in range(len(LENGTHS)):
            apart = alone(model, row)["sentence_embedding"][0]
            assert np.allclose(apart, together[row], atol=1e-5)

    def test_weights_are_stored_in_8_bits(self, encoder: Weights) -> None:
        model, _ = build(encoder.tensors, encoder.heads, ranges_of(encoder))
        plain, _ = build(encoder.tensors, encoder.heads, None)
        assert len(model.SerializeToString()) < 0.4 * len(plain.SerializeToString())


finite = st.floats(-8, 8, width=32)
matrices = arrays(
    np.float32, st.tuples(st.sampled_from([2, 4, 10]), st.integers(1, 4)), elements=finite
)


@given(matrices.filter(lambda weight: (np.abs(weight).max(axis=0) > 1e-3).all()))
def test_no_two_neighbours_overflow_16_bits_and_rounding_is_all_that_is_lost(weight):
    values, scale = quantise_weights(weight)
    products = 255 * values.astype(np.int64).reshape(-1, 2, weight.shape[1])
    for sign in (1, -1):
        assert np.maximum(sign * products, 0).sum(axis=1).max() < 2**15
    assert (np.abs(values * scale - weight) <= 0.5001 * scale).all()


def test_a_lone_weight_uses_all_8_bits():
    values, _ = quantise_weights(np.array([[0.3], [0.0], [-0.1], [0.0]], dtype=np.float32))
    assert values.ravel().tolist() == [127, 0, -42, 0]


@given(arrays(np.float32, 9, elements=st.floats(0.125, 1024, width=32)))
def test_outlier_channels_alone_are_drawn_in_by_steps(high):
    divisors = smoothing(-high / 2, high)
    assert (divisors[high <= np.median(high)] == 1).all()
    assert (divisors >= 1).all()
    steps = 8 * np.log2(divisors)
    assert np.allclose(steps, np.rint(steps), atol=1e-3)
    assert (high / divisors).max() <= high.max()


def test_a_channel_64_times_the_median_is_drawn_in_by_seven_tenths_of_that():
    high = np.array([1, 1, 64], dtype=np.float32)
    assert np.log2(smoothing(-high, high)).tolist() == pytest.approx([0, 0, 4.25], abs=1e-3)
