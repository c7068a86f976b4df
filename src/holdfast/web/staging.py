"""What a story that is played in one process needs around it: quiet logs, an environment of its own, and patience.

A system's stage enters the first two, and serves its sandboxes and routes inside. Both are restored when it is left, however it is.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

LOOK_S: Final = 0.02
LOOKS_MAX: Final = 3000


@contextmanager
def quiet(*loggers: str) -> Iterator[None]:
    """What goes wrong in a story is meant to: it tells that itself, and no log below `CRITICAL` does."""
    silenced = [logging.getLogger(name) for name in loggers]
    before = [each.level for each in silenced]
    for each in silenced:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(silenced, before, strict=True):
            each.setLevel(level)


@contextmanager
def environment(changes: Mapping[str, str], *, without: Collection[str] = ()) -> Iterator[None]:
    """The variables of the shell with these changes, and without all that begin as those in `without` do."""
    before = dict(os.environ)
    for name in before:
        if name.startswith(tuple(without)):
            del os.environ[name]
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


async def until(found: Callable[[], Any], what: str, *, looks_max: int = LOOKS_MAX) -> Any:
    """What it gives, as soon as it gives something; it may be awaitable."""
    for _ in range(looks_max):
        value = found()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"Waited for {what}, in vain.")
