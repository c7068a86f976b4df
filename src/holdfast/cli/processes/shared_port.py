"""Several processes that serve one port: `holdfast run SYSTEM --processes N`.

Each is a `holdfast run` of its own that listens on the port with SO_REUSEPORT, and the kernel spreads new
connections over them. The parent reserves the port, so that it stays free for a process that is started
again, and serves nothing itself.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer

from holdfast.cli.processes.supervisor import ChildProcess, supervise
from holdfast.config.settings import MEMORY_CACHE, Settings, get_variable_name
from holdfast.core.errors import HoldfastError, SettingsError
from holdfast.core.http.server import format_url, listen
from holdfast.model.system import System

COMMAND: Final = (sys.executable, "-m", "holdfast")
# The option of `holdfast run` with which a process shares its port.
SHARES_PORT: Final = "--shares-port"


def run_on_one_port(
    system: System,
    settings: Settings,
    *,
    processes: int,
    options: Sequence[str],
    first_options: Sequence[str],
    host: str | None,
    port: int,
) -> None:
    """Run this many processes of a system on one port until a signal, or until one ends for good.

    `options` are those of every `holdfast run`; the first process gets `first_options` too, at its first
    start. Raise `SettingsError` if the machine cannot share ports or the stores end with each process.
    """
    title = system.title or system.name
    _refuse_unshared_stores(settings)
    if settings.cache == MEMORY_CACHE:
        typer.echo(
            f"Each process has a cache of its own: sessions and rate limits are those of one process. Set "
            f"{get_variable_name('cache')} to a Redis that they share.",
            err=True,
        )
    with _reserve_port(settings.api_host if host is None else host, port) as (url, number):
        command = (*COMMAND, "run", system.name, *options, "--port", str(number), SHARES_PORT)
        children = [
            ChildProcess(
                f"{title} {position + 1}", command, first_options=() if position else tuple(first_options)
            )
            for position in range(processes)
        ]
        ended = asyncio.run(
            supervise(
                children,
                report=lambda line: typer.echo(line, err=True),
                on_ready=lambda: typer.echo(f"Ready: {processes} processes of {title} share {url}"),
            )
        )
    if ended is not None:
        raise HoldfastError(f"{ended} The other processes were stopped too.")


def _refuse_unshared_stores(settings: Settings) -> None:
    """Raise `SettingsError` if each process would have stores of its own."""
    if settings.has_memory_tables:
        raise SettingsError(
            f"Invalid {get_variable_name('tables')}={settings.tables} for several processes: each would have "
            "tables of its own. Name a store that they share, or run one process."
        )


@contextmanager
def _reserve_port(host: str, port: int) -> Iterator[tuple[str, int]]:
    """Bind the port without listening while the block runs; yield its URL and number, chosen if `port` is 0.

    Raise `SettingsError` if it cannot be shared or is in use.
    """
    if not hasattr(socket, "SO_REUSEPORT"):
        raise SettingsError("This machine cannot share a port: run one process.")
    with listen(host, port, remote_needs="", shares_port=True, accepts=False) as sockets:
        yield format_url(sockets, host), sockets[0].getsockname()[1]
