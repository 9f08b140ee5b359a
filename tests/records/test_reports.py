"""Reports: imported when one is first used."""

import subprocess
import sys

import pytest

from toolcrib import records


def test_the_library_imports_no_report_before_one_is_used():
    code = (
        "import sys; from toolcrib import Crib; "
        "assert 'toolcrib.records.reports' not in sys.modules; "
        "from toolcrib import IndexReport; IndexReport()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_of_the_records_is_there_and_no_other():
    assert all(hasattr(records, name) for name in records.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Reports'"):
        _ = records.Reports
