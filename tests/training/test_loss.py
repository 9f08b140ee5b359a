"""What the losses reward, and which texts of a batch they leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training.tiny import base
from toolcrib.training.data import Example

UNLIKE = np.eye(8, dtype=np.float32)
"""The guide's vectors of eight texts that have nothing in common."""

QUERY, TEXT, THIRD = [1.0, 0.0, 0.0], [0.8, 0.6, 0.0], [0.0, 0.0, 1.0]


def contrastive(examples: list[Example], vectors: Any = UNLIKE) -> Any:
    """The loss of a model whose texts spell out their vectors: those of their tokens, summed."""
    # Here, as torch takes seconds to import, and not every process that collects tests needs it.
    from torch import nn

    from toolcrib.training.loss import MaskedContrastiveLoss

    class Spelled(nn.Module):
        def forward(self, features: dict[str, Any]) -> dict[str, Any]:
            mask = features["attention_mask"].unsqueeze(-1)
            return {"sentence_embedding": (features["values"] * mask).sum(dim=1)}

    return MaskedContrastiveLoss(Spelled(), examples, vectors)


def texts(*vectors: list[float]) -> dict[str, Any]:
    """Texts of one token each."""
    import torch

    values = torch.tensor(vectors).unsqueeze(1)
    return {"values": values, "attention_mask": torch.ones(values.shape[:2], dtype=torch.long)}


def example(positive: int, *also: int, negatives: tuple[int, ...] = ()) -> Example:
    return Example("q", positive, frozenset({positive, *also}), "toy", negatives)


def loss(examples: list[Example], columns: list[list[list[float]]], vectors: Any = UNLIKE) -> float:
    """The loss of all examples in one batch: vectors of queries, positives, negatives..."""
    import torch

    features = [texts(*column) for column in columns]
    return float(contrastive(examples, vectors)(features, torch.arange(len(examples))))


class TestContrastive:
    """For an encoder: the positive against all other texts of the batch."""

    PAIRS = (example(0), example(1))

    def test_it_is_lower_where_query_and_positive_are_aligned(self) -> None:
        near = loss([*self.PAIRS], [[QUERY, THIRD], [TEXT, THIRD]])
        far = loss([*self.PAIRS], [[QUERY, THIRD], [THIRD, TEXT]])
        assert near < 0.01
        assert far > 10

    def test_it_is_a_softmax_over_cosines(self) -> None:
        rows, negative = [example(0, negatives=(1,))], [0.6, 0.0, 0.8]
        found = loss(rows, [[QUERY], [TEXT], [negative]])
        assert found == pytest.approx(np.log1p(np.exp(20 * (0.6 - 0.8))), rel=1e-4)
        assert loss(rows, [[[9.0, 0.0, 0.0]], [TEXT], [negative]]) == pytest.approx(found)

    def test_another_rows_negative_is_a_candidate_as_well(self) -> None:
        rows = [example(0, negatives=(2,)), example(1, negatives=(3,))]
        columns = [[QUERY, THIRD], [TEXT, THIRD], [[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]]]
        before = loss(rows, columns)
        columns[2][1] = QUERY
        assert loss(rows, columns) > before + 1

    def test_a_text_that_answers_as_well_may_be_anywhere(self) -> None:
        rows = [example(0, 1), example(1)]
        assert self._moved(rows, UNLIKE) == pytest.approx(0, abs=0.01)

    def test_a_text_that_the_guide_finds_alike_to_the_positive_may_be_anywhere(self) -> None:
        vectors = UNLIKE.copy()
        vectors[1, :2] = 0.95, np.sqrt(1 - 0.95**2)
        assert self._moved([example(0), example(1)], vectors) == pytest.approx(0, abs=0.01)

    def test_any_other_text_may_not(self) -> None:
        vectors = UNLIKE.copy()
        vectors[1, :2] = 0.85, np.sqrt(1 - 0.85**2)
        assert self._moved([example(0), example(1)], vectors) > 1

    @staticmethod
    def _moved(rows: list[Example], vectors: Any) -> float:
        """What the first query loses when the second row's positive moves next to it.

        The second query moves along: its own part of the loss stays nothing.
        """
        apart = loss(rows, [[QUERY, THIRD], [TEXT, THIRD]], vectors)
        near = [0.9, 0.0, np.sqrt(1 - 0.9**2)]
        return loss(rows, [[QUERY, near], [TEXT, near]], vectors) - apart

    def test_the_positive_itself_is_never_left_out(self) -> None:
        same = np.ones((8, 1), dtype=np.float32)
        assert loss([example(0), example(1)], [[QUERY, QUERY], [THIRD, THIRD]], same) == 0
        rows = [example(0, negatives=(2,)), example(0, negatives=(3,))]
        columns = [[QUERY, QUERY], [TEXT, TEXT], [THIRD, THIRD]]
        assert loss(rows, columns) == pytest.approx(np.log1p(np.exp(-16)), abs=1e-5)

    def test_a_label_is_a_place_in_the_data_and_not_in_the_batch(self) -> None:
        import torch

        made = contrastive([example(4), example(5), example(0, 1), example(1)])
        features = [texts(QUERY, THIRD), texts(TEXT, QUERY)]
        apart, masked = (made(features, torch.tensor(rows)) for rows in ([0, 1], [2, 3]))
        assert float(masked) < float(apart) - 1


@given(st.lists(st.integers(1, 9), min_size=1, max_size=50))
def test_each_text_keeps_its_own_vector_whatever_runs_with_it(lengths):
    import torch

    chance = torch.Generator().manual_seed(0)
    longest = max(lengths)
    features = {
        "values": torch.rand((len(lengths), longest, 4), generator=chance) + 0.1,
        "attention_mask": (torch.arange(longest) < torch.tensor(lengths)[:, None]).long(),
        "kind": "text",
    }
    found = contrastive([])._encode(features)
    summed = (features["values"] * features["attention_mask"].unsqueeze(-1)).sum(dim=1)
    assert torch.allclose(found, torch.nn.functional.normalize(summed), atol=1e-6)


class TestListwise:
    """For a reranker: the first of a query's texts against its others."""

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Any:
        import torch
        from sentence_transformers.cross_encoder import CrossEncoder

        torch.manual_seed(1)
        folder = base(tmp_path_factory.mktemp("base"))
        model = CrossEncoder(folder, num_labels=1, device="cpu").eval()
        model.model.classifier.weight.data *= 1000  # as a trained one, it tells texts apart
        return model

    def test_it_is_the_softmax_of_the_models_own_logits(self, model: Any) -> None:
        import torch

        from toolcrib.training.loss import ListwiseLoss

        queries = ["river stone", "a castle in winter, or something of that kind", "go", "my heart"]
        lists = [["word " * (at * 7 % 13 + row) for at in range(10)] for row in range(4)]
        with torch.no_grad():
            found = ListwiseLoss(model)((queries, lists))
        pairs = [(query, text) for query, row in zip(queries, lists, strict=True) for text in row]
        raw = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        logits = torch.tensor(raw).view(4, 10)
        expected = -logits.log_softmax(dim=1)[:, 0].mean()
        assert float(found) == pytest.approx(float(expected), abs=1e-4)
        assert logits.std() > 0.01

    def test_gradients_lift_the_first_text(self, model: Any) -> None:
        import torch

        from toolcrib.training.loss import ListwiseLoss

        batch = (["river stone"], [["write a letter", "play a song", "show the weather"]])
        before = ListwiseLoss(model)(batch)
        before.backward()
        with torch.no_grad():
            for weight in model.parameters():
                if weight.grad is not None:
                    weight.sub_(0.01 * weight.grad)
            assert float(ListwiseLoss(model)(batch)) < float(before)
