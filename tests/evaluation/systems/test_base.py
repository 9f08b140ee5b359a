"""Baselines by name or by any module and factory."""

from __future__ import annotations

import pytest

from toolcrib.encoders.fake import DeterministicEncoder
from toolcrib.errors import SettingsError
from toolcrib.evaluation.systems.base import PEERS, baseline


def test_a_name_of_ours_an_own_factory_and_a_class_are_all_made(tmp_path, monkeypatch):
    (tmp_path / "my_finder.py").write_text("def make(encoder):\n    return encoder.dimensions\n")
    monkeypatch.chdir(tmp_path)
    name, factory = baseline("my_finder:make")
    assert (name, factory(DeterministicEncoder(64))) == ("my_finder:make", 64)
    assert baseline("rank-bm25") == baseline("toolcrib.evaluation.systems.bm25:RankBm25")


@pytest.mark.parametrize("peer", PEERS)
def test_a_peer_is_found_in_the_repository(peer):
    assert baseline(peer) == baseline(PEERS[peer])
    assert baseline(peer)[0] == peer


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("bm26", "no system 'bm26'; known are toolcrib, .*rank-bm25"),
        ("no_such_module:make", "'no_such_module:make' cannot be loaded: No module named"),
        ("json:no_such", "'json:no_such' cannot be loaded: .*no_such"),
        (":make", "no system ':make'"),
    ],
)
def test_what_cannot_be_made_says_why(given, said):
    with pytest.raises(SettingsError, match=said):
        baseline(given)
