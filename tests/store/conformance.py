"""The contract of a store, executable: what every engine must do, whatever it is made of.

To hold a new engine to it, inherit and supply the fixture `store`, open on an empty place with
the layout `tests.store.samples.LAYOUT`:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def store(self, tmp_path: Path) -> Iterator[Store]:
            with closing(MyStore.open(tmp_path, LAYOUT)) as store:
                yield store
"""

from __future__ import annotations

from tests.store.contract_filtering import Filtering
from tests.store.contract_renewing import Renewing
from tests.store.contract_searching import Searching
from tests.store.contract_writing import Writing

__all__ = ["StoreContract"]


class StoreContract(Writing, Searching, Filtering, Renewing):
    """Every test of the contract; the subclass supplies the fixture `store`."""
