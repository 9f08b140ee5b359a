"""Asynchronous methods that run a blocking method in a thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

_Owner = TypeVar("_Owner")
_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


async def run_in_thread(work: Callable[[], _Result]) -> _Result:
    """Run work in a thread; asyncio, a tenth of our import time, is imported only here."""
    import asyncio

    return await asyncio.to_thread(work)


def in_thread(
    method: Callable[Concatenate[_Owner, _Parameters], _Result],
    run: Callable[[Callable[[], Any]], Awaitable[Any]] = run_in_thread,
) -> Callable[Concatenate[_Owner, _Parameters], Coroutine[Any, Any, _Result]]:
    """Make an asynchronous twin of a blocking method; `run` runs it, callbacks included."""

    @wraps(method)
    async def call(self: _Owner, *args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        return await run(partial(getattr(self, method.__name__), *args, **kwargs))

    call.__name__ = f"a{method.__name__}"
    call.__doc__ = f"As `{method.__name__}`, in a thread."
    return call
