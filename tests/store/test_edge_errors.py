"""Whatever the engine raises reaches the caller as one of our errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.errors import StoreDamagedError, StoreError, StoreWriteError
from toolcrib.store.qdrant_edge import guard

PLACE = Path("store")


class PanicException(BaseException):
    """Stands in for the Rust panic's class, which cannot be imported."""


def raised(error: BaseException) -> BaseException:
    with pytest.raises(BaseException) as caught, guard(PLACE):  # noqa: PT011
        raise error
    return caught.value


def test_a_refusal_is_a_store_error():
    error = raised(Exception("Not existing vector name"))
    assert type(error) is StoreError
    assert str(error) == "the engine refused a request on store: Not existing vector name"


def test_a_disk_that_refuses_is_a_write_error():
    error = raised(OSError(28, "No space left on device"))
    assert type(error) is StoreWriteError
    assert str(error) == "store: No space left on device"


def test_a_panic_is_damage():
    error = raised(PanicException("index out of bounds"))
    assert type(error) is StoreDamagedError
    assert str(error) == (
        "the engine failed on store: index out of bounds; the index can be made again from its "
        "sources: `toolcrib index SOURCE... --store NEW_FOLDER`"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StoreError("ours")])
def test_what_is_not_the_engines_passes(error):
    assert raised(error) is error
