"""A calibration lives beside its index, comes back with it, and serves only where it holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.retrieval.calibrations import calibration, flat
from toolcrib import Crib, Settings, ToolSpec, build
from toolcrib.errors import CalibrationError
from toolcrib.indexers.points import layout
from toolcrib.retrieval.calibration_store import (
    load_calibration,
    save_calibration,
    usable_calibration,
)
from toolcrib.retrieval.confidence import default_calibration
from toolcrib.store.base import Store

IDENTITY: dict[str, Any] = {"dense": "a", "fusion": {"dense": 1 / 3}, "reranker": None}
TOOLS = [ToolSpec(name="send_mail", description="Send a mail."), ToolSpec(name="read_file")]


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    opened = build.open_store(":memory:", layout(8), settings)
    yield opened
    opened.close()


class TestStore:
    """In the small document of the index, under a key of its own."""

    def test_what_is_saved_is_loaded(self, store: Store) -> None:
        made = calibration(IDENTITY)
        save_calibration(store, IDENTITY, made)
        assert load_calibration(store, IDENTITY) == made

    def test_what_else_is_kept_there_stays(self, store: Store) -> None:
        store.write_meta({"identity": {"dense": "a"}})
        save_calibration(store, IDENTITY, calibration(IDENTITY))
        save_calibration(store, IDENTITY, None)
        assert store.read_meta() == {"identity": {"dense": "a"}}

    def test_the_last_one_counts(self, store: Store) -> None:
        save_calibration(store, IDENTITY, calibration(IDENTITY, seed=1))
        save_calibration(store, IDENTITY, calibration(IDENTITY, seed=2))
        loaded = load_calibration(store, IDENTITY)
        assert loaded is not None
        assert loaded.seed == 2

    def test_without_one_the_shipped_one_serves_where_it_holds(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        for load in (load_calibration, usable_calibration):
            assert load(store, default_calibration().identity) == default_calibration()
            assert load(store, IDENTITY) is None
        assert caplog.text == ""

    def test_one_for_other_models_is_not_saved(self, store: Store) -> None:
        with pytest.raises(CalibrationError) as caught:
            save_calibration(store, IDENTITY | {"dense": "b"}, calibration(IDENTITY))
        assert str(caught.value) == (
            "the calibration was made with dense 'a', now 'b'; run `toolcrib calibrate` again"
        )
        assert store.read_meta() == {}

    @pytest.mark.parametrize(
        "change",
        [{"dense": "b"}, {"fusion": {"dense": 0.5}}, {"reranker": {"name": "r", "weight": 0.5}}],
    )
    def test_one_for_other_models_or_settings_is_refused_and_a_warning_says_why(
        self, store: Store, caplog: pytest.LogCaptureFixture, change: dict[str, Any]
    ) -> None:
        save_calibration(store, IDENTITY, calibration(IDENTITY))
        [name] = change
        with pytest.raises(CalibrationError) as caught:
            load_calibration(store, IDENTITY | change)
        assert str(caught.value).startswith(f"the calibration was made with {name} ")
        assert "`toolcrib calibrate`" in str(caught.value)
        assert usable_calibration(store, IDENTITY | change) is None
        [record] = caplog.records
        assert record.levelname == "WARNING"
        assert record.message.startswith(str(caught.value))

    def test_a_broken_one_is_refused_and_the_field_is_named(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        stored = calibration(IDENTITY).model_dump(mode="json") | {"threshold": "high"}
        store.write_meta({"calibration": stored})
        reason = "the calibration of this index: threshold: Input should be"
        with pytest.raises(CalibrationError, match=f"^{reason}"):
            load_calibration(store, IDENTITY)
        assert usable_calibration(store, IDENTITY) is None
        assert reason in caplog.text

    def test_the_shipped_one_does_not_stand_in_for_one_that_holds_no_more(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        save_calibration(store, IDENTITY, calibration(IDENTITY))
        assert usable_calibration(store, default_calibration().identity) is None
        assert len(caplog.records) == 1


class TestCrib:
    """The same, as a library user meets it."""

    @pytest.fixture
    def folder(self, tmp_path: Path, settings: Settings) -> Path:
        """An index whose calibration gives every tool 0.75."""
        with Crib.open(tmp_path / "s", settings=settings) as crib:
            crib.index_tools(*TOOLS)
            crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.75))
        return tmp_path / "s"

    def test_it_is_in_use_at_once_and_gone_at_once(self, crib: Crib) -> None:
        crib.index_tools(*TOOLS)
        assert crib.find_tools("send mail").confidence is None
        crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.75))
        assert crib.find_tools("send mail").confidence == pytest.approx(0.75)
        crib.tools.save_calibration(None)
        assert crib.find_tools("send mail").confidence is None

    def test_it_is_there_after_opening_again(self, folder: Path, settings: Settings) -> None:
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").confidence == pytest.approx(0.75)

    def test_tools_that_come_and_go_leave_it_alone(self, folder: Path, settings: Settings) -> None:
        with Crib.open(folder, settings=settings) as crib:
            crib.index_tools(*(ToolSpec(name=f"more{n}", server="s") for n in range(20)))
            crib.remove_tools("read_file")
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").confidence == pytest.approx(0.75)

    def test_other_fusion_weights_leave_answers_without_confidence(
        self, folder: Path, settings: Settings, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = settings.model_copy(update={"fusion": replace(settings.fusion, dense=0.9)})
        with Crib.open(folder, settings=other) as crib:
            found = crib.find_tools("send mail")
        assert (found.confidence, found.verdict, found.threshold) == (None, "accept", None)
        assert len(found.tools) == 2
        assert "the calibration was made with fusion {" in caplog.text
        caplog.clear()
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").confidence == pytest.approx(0.75)
        assert caplog.text == ""

    def test_settings_that_move_no_score_do_not_matter(
        self, folder: Path, settings: Settings
    ) -> None:
        other = settings.model_copy(update={"gate": replace(settings.gate, threshold=0.8)})
        with Crib.open(folder, settings=other) as crib:
            found = crib.find_tools("write a letter")
        assert (found.confidence, found.verdict) == (pytest.approx(0.75), "abstain")

    def test_a_rebuild_keeps_it(self, folder: Path, settings: Settings) -> None:
        for rebuild in (True, False):
            with Crib.open(folder, settings=settings, rebuild=rebuild) as crib:
                assert crib.find_tools("send mail").confidence == pytest.approx(0.75)

    def test_after_a_rebuild_with_another_model_it_is_refused(
        self, folder: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = Settings.model_validate({"encoder": {"dense": "deterministic:32"}})
        for rebuild in (True, False):
            with Crib.open(folder, settings=other, rebuild=rebuild) as crib:
                assert crib.find_tools("send mail").confidence is None
                with pytest.raises(CalibrationError, match="was made with dense 'determ"):
                    crib.tools.calibration()
        assert "`toolcrib calibrate`" in caplog.text

    def test_a_broken_one_keeps_nobody_from_searching_and_a_new_one_mends_it(
        self, folder: Path, settings: Settings
    ) -> None:
        with Crib.open(folder, settings=settings) as crib:
            crib.tools.store.write_meta(
                crib.tools.store.read_meta() | {"calibration": {"weights": []}}
            )
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").verdict == "accept"
            crib.tools.save_calibration(flat(crib.tools.calibration_fingerprint(), 0.6))
            assert crib.find_tools("send mail").confidence == pytest.approx(0.6)

    def test_one_can_be_tried_without_keeping_it(self, folder: Path, settings: Settings) -> None:
        with Crib.open(folder, settings=settings) as crib:
            crib.tools.use_calibration(flat(crib.tools.calibration_fingerprint(), 0.6))
            assert crib.find_tools("send mail").confidence == pytest.approx(0.6)
        with Crib.open(folder, settings=settings) as crib:
            assert crib.find_tools("send mail").confidence == pytest.approx(0.75)
