"""The contract of a crib, wherever it is: inherited by what must keep it."""

from __future__ import annotations

import pytest

from tests.conformance.answers import Both
from tests.conformance.contract_documents import Documents
from tests.conformance.contract_judging import Judging
from tests.conformance.contract_refusals import Refusals
from tests.conformance.contract_tools import Tools
from tests.conformance.contract_turns import Turns

__all__ = ["CribContract"]


class CribContract(Tools, Judging, Documents, Turns, Refusals):
    """Whoever inherits it has two fixtures for a whole class.

    `new_crib` is a function that gives empty cribs; `behind` one that gives the embedded crib
    that does the work of such a one.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def new_both(cls, new_crib, new_twin):
        return lambda: Both(new_crib(), new_twin())

    @pytest.fixture
    def both(self, new_both):
        return new_both()
