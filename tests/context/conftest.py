"""Files of cues and labels, written for a test."""

from __future__ import annotations

import pytest


@pytest.fixture
def written(tmp_path):
    """Writes a YAML file."""

    def write(text):
        file = tmp_path / "written.yaml"
        file.write_text(text, encoding="utf-8")
        return file

    return write
