"""moto's server, the independent judge of the AWS engines, and how a suite says what it gets wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

NOT_ISOLATED = (
    "needs transactions that are isolated: in moto, one that fails takes back what others wrote meanwhile"
)

NOT_ATOMIC = "needs updates of one item that are atomic: in moto, of two at once one is lost"


@contextmanager
def moto_endpoint() -> Iterator[str]:
    """`127.0.0.1:5123`. What is in it is shared by all that a process starts: use names of your own."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


def expect_faults(items: Sequence[pytest.Item], folder: Path, reasons: Mapping[str, str]) -> None:
    """Marks the tests of a folder that fail on moto, each with what moto does; one that passes is told too."""
    for item in _on_moto(items):
        reason = reasons.get(_without_engine(item.name)) if folder in item.path.parents else None
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def skip_races(items: Sequence[pytest.Item], file_or_folder: Path, reason: str = NOT_ISOLATED) -> None:
    """Skip the tests of writes at once on moto, by their names: it fails them now and then, for this reason."""
    for item in _on_moto(items):
        is_ours = file_or_folder == item.path or file_or_folder in item.path.parents
        if is_ours and "_at_once_" in item.name:
            item.add_marker(pytest.mark.skip(reason=reason))


def _on_moto(items: Sequence[pytest.Item]) -> Iterator[pytest.Item]:
    """By their names alone: there are many tests, and few of them are on moto."""
    return (item for item in items if "[moto" in item.name)


def _without_engine(name: str) -> str:
    """`test_it[moto]` is `test_it`, `test_it[moto-not]` is `test_it[not]`."""
    return name.replace("[moto-", "[").replace("[moto]", "")
