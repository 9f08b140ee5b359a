"""How a crib reads turns: what was fitted for it, and the names of the registry's tools."""

from __future__ import annotations

import base64

from toolcrib import wiring
from toolcrib.encoders.base import DenseEncoder
from toolcrib.router.context.detector import Detector
from toolcrib.router.context.model import ContextModel, write_context
from toolcrib.settings import Settings
from toolcrib.store.base import Store

__all__ = ["Reading"]

META_KEY = "context"
"""Where what was fitted of the settings' labels stands in the store's small document."""


class Reading:
    """Makes the detector when it is first needed, and anew when tools have changed."""

    def __init__(self, store: Store, dense: DenseEncoder, settings: Settings) -> None:
        self._store = store
        self._dense = dense
        self._settings = settings
        self._model: ContextModel | None = None
        self._has_model = False
        self._detector: Detector | None = None
        self._stranger: Detector | None = None

    def detector(self) -> Detector:
        """What reads a turn.

        Raises:
            SettingsError: labels or cues cannot be read.
        """
        if self._detector is None:
            records = [r.payload for r in self._store.scroll(fields=("name", "server"))]
            names = (each["name"] for each in records if _is_identifier(each["name"]))
            services = {each["server"] for each in records if each["server"]}
            self._detector = wiring.make_detector(
                self._settings, self._fitted(), names, sorted(services)
            )
        return self._detector

    def stranger(self) -> Detector:
        """What reads a turn of somebody who may not know which tools there are.

        Raises:
            SettingsError: labels or cues cannot be read.
        """
        if self._stranger is None:
            self._stranger = wiring.make_detector(self._settings, self._fitted(), ())
        return self._stranger

    def forget_names(self) -> None:
        """Tools have changed: read their names again before the next turn."""
        self._detector = None

    def forget(self) -> None:
        """Another process may have changed everything: read it again before the next turn."""
        self._detector, self._stranger, self._has_model = None, None, False

    def keep(self) -> None:
        """Keep what is fitted beside the index, for every process that opens it.

        There is nothing to keep where the settings name no labels or cues of their own, and the
        encoder is the bundled one.
        """
        model = self._fitted()
        if model is not None and not wiring.is_shipped(model):
            text = base64.b64encode(write_context(model)).decode("ascii")
            self._store.write_meta({**self._store.read_meta(), META_KEY: text})

    def _fitted(self) -> ContextModel | None:
        if not self._has_model:
            text = self._store.read_meta().get(META_KEY)
            kept = None if text is None else base64.b64decode(text)
            self._model = wiring.make_context_model(self._settings, self._dense, kept)
            self._has_model = True
        return self._model


def _is_identifier(name: str) -> bool:
    """Whether a name is none of a sentence's words: `web_search` is none, `search` is one."""
    return not name.isalpha() or not (name.islower() or name.istitle())
