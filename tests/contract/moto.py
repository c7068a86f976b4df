"""Runs moto's server, an independent check of the AWS engines, and marks tests by its known deviations."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

NOT_ISOLATED = "needs isolated transactions: in moto, a failed transaction undoes concurrent writes"

NOT_ATOMIC = "needs atomic updates: moto loses one of two concurrent updates of an item"


@contextmanager
def moto_endpoint() -> Iterator[str]:
    """Run moto's server and yield its address, such as `127.0.0.1:5123`.

    All users in a process share its data: choose unique names.
    """
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


def expect_failures(items: Sequence[pytest.Item], folder: Path, reasons: Mapping[str, str]) -> None:
    """Mark the tests in the folder that must fail on moto; `reasons` says by test name what moto does wrong.

    The mark is strict: a test that passes again is reported.
    """
    for item in _moto_items(items):
        reason = reasons.get(_strip_engine(item.name)) if folder in item.path.parents else None
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def skip_races(items: Sequence[pytest.Item], file_or_folder: Path, reason: str = NOT_ISOLATED) -> None:
    """Skip on moto the tests marked `concurrent` in this file or folder, because moto fails them now and
    then.
    """
    for item in _moto_items(items):
        is_ours = file_or_folder == item.path or file_or_folder in item.path.parents
        if is_ours and item.get_closest_marker("concurrent"):
            item.add_marker(pytest.mark.skip(reason=reason))


def _moto_items(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """Return the tests that run on moto, found by their names."""
    return (item for item in items if "[moto" in item.name)


def _strip_engine(name: str) -> str:
    """Return `test_it` for `test_it[moto]`, and `test_it[not]` for `test_it[moto-not]`."""
    return name.replace("[moto-", "[").replace("[moto]", "")
