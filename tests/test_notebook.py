"""The notebook that measures a registry: ten cells, which run as they stand."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ROOT, encoded_once

NOTEBOOK = json.loads((ROOT / "docs" / "how-to" / "measure.ipynb").read_text("utf-8"))


def test_it_is_a_notebook_of_ten_cells_without_outputs():
    assert (NOTEBOOK["nbformat"], NOTEBOOK["nbformat_minor"]) == (4, 5)
    assert len(NOTEBOOK["cells"]) == 10
    assert [each["outputs"] for each in NOTEBOOK["cells"] if "outputs" in each] == [[]] * 9


@pytest.mark.slow
def test_its_cells_run_in_their_order(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    with encoded_once():
        for cell in NOTEBOOK["cells"]:
            if cell["cell_type"] == "code":
                exec(compile("".join(cell["source"]), cell["id"], "exec"), names)
    shown = capsys.readouterr().out
    assert "247 tools of 25 servers; 0 refused" in shown
    assert "labels of no tool here: set()" in shown
    assert "complete among 5: " in shown
    assert "% saved" in shown
