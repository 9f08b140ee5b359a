"""Where a calibration is kept: beside the index that it was made for."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from toolcrib.errors import CalibrationError
from toolcrib.retrieval.confidence import Calibration, default_calibration, read_calibration
from toolcrib.store.base import Store

__all__ = ["META_KEY", "load_calibration", "save_calibration", "usable_calibration"]

logger = logging.getLogger(__name__)

META_KEY = "calibration"
"""Where it stands in the store's small document."""


def load_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """The index's own calibration, or the shipped one where it has none and that one holds.

    Raises:
        CalibrationError: the own one cannot be read, or was made for other models or settings
            than those of `identity`.
    """
    fields = store.read_meta().get(META_KEY)
    if fields is None:
        shipped = default_calibration()
        return None if shipped.mismatch(identity) else shipped
    own = read_calibration(fields, "the calibration of this index")
    _require_match(own, identity)
    return own


def usable_calibration(store: Store, identity: Mapping[str, Any]) -> Calibration | None:
    """As `load_calibration`; instead of raising it warns, and there is none."""
    try:
        return load_calibration(store, identity)
    except CalibrationError as error:
        logger.warning("%s; answers have no confidence until then", error)
        return None


def save_calibration(
    store: Store,
    identity: Mapping[str, Any],
    calibration: Calibration | None,
) -> None:
    """Keep a calibration beside the index; None removes what is kept there.

    Raises:
        CalibrationError: it was made for other models or settings than those of `identity`.
        StoreError: the store refused.
    """
    if calibration is not None:
        _require_match(calibration, identity)
    meta = {key: value for key, value in store.read_meta().items() if key != META_KEY}
    kept = {} if calibration is None else {META_KEY: calibration.model_dump(mode="json")}
    store.write_meta(meta | kept)


def _require_match(calibration: Calibration, identity: Mapping[str, Any]) -> None:
    if differing := calibration.mismatch(identity):
        raise CalibrationError(
            f"the calibration was made with {differing}; run `toolcrib calibrate` again",
        )
