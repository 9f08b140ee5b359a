"""What the embedded engine raises, panics among it, in our own errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from toolcrib.errors import StoreDamagedError, StoreError, StoreWriteError

__all__ = ["guard"]


@contextmanager
def guard(path: Path) -> Generator[None]:
    """Turn what the engine raises on this folder into our own errors.

    Raises:
        StoreWriteError: the disk refused.
        StoreError: the engine refused the request.
        StoreDamagedError: the engine panicked.
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreWriteError(f"{path}: {error.strerror or error}") from error
    except Exception as error:
        raise StoreError(f"the engine refused a request on {path}: {error}") from error
    except BaseException as error:
        # A Rust panic is a BaseException of a class that cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        raise StoreDamagedError(
            f"the engine failed on {path}: {error}; the index can be made again from its "
            "sources: `toolcrib index SOURCE... --store NEW_FOLDER`",
        ) from error
