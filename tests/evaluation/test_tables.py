"""Tables of summaries leave nothing out."""

from __future__ import annotations

from dataclasses import replace

from toolcrib.evaluation.decisions import Share, summarise
from toolcrib.evaluation.tables import MAX_CALLED_TOOLS, decision_tables


def test_tools_that_are_seldom_called_share_a_row():
    often = {f"a/{n}": Share(1.0, 9) for n in range(MAX_CALLED_TOOLS)}
    summary = replace(summarise([]), calls=often | {"b/1": Share(1.0, 3), "b/2": Share(0.0, 1)})
    rows = decision_tables(summary)["calls"].rows
    assert len(rows) == MAX_CALLED_TOOLS + 1
    assert rows[-1] == ("2 other tools", "4", "75.0%")
    assert len(decision_tables(replace(summary, calls=often))["calls"].rows) == MAX_CALLED_TOOLS
