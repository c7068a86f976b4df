"""Helpers for demo stories that run in one process: silent logs, a patched environment, and polling.

A system's demo processes use them around its sandboxes and routes. Logs and environment are restored on exit.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

__all__ = [
    "patch_environ",
    "silence_loggers",
    "wait_until",
]

POLL_S: Final = 0.02
MAX_POLLS: Final = 3000


@contextmanager
def silence_loggers(*loggers: str) -> Iterator[None]:
    """Silence these loggers below `CRITICAL`: failures in a story are intended, and the story reports
    them.
    """
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
def patch_environ(changes: Mapping[str, str], *, without: Collection[str] = ()) -> Iterator[None]:
    """Patch the environment: apply the changes, and remove all variables with a prefix in `without`."""
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


async def wait_until(poll: Callable[[], Any], what: str, *, max_polls: int = MAX_POLLS) -> Any:
    """Poll until the function returns something true, and return it; its result may be awaitable.

    Raise `AssertionError`, which names `what`, after `max_polls` polls, about a minute.
    """
    for _ in range(max_polls):
        value = poll()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"Timed out waiting for {what}.")
