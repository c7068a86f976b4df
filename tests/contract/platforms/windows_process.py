"""A process without the modules and functions that Windows does not have, which runs one part of Holdfast.

Run it as `python -m tests.contract.platforms.windows_process PART`. The standard library and
the MCP SDK are loaded first: on Linux, parts of them need what is then removed.
"""

from __future__ import annotations

import asyncio
import asyncio.subprocess
import importlib.abc
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import mcp.server.stdio  # noqa: F401  loaded before `fcntl` is removed

MISSING_MODULES: Final = ("fcntl", "grp", "pwd", "resource", "termios", "uvloop")
MISSING_IN_OS: Final = (
    *("chown", "fork", "geteuid", "getegid", "getuid", "killpg", "mkfifo", "pread", "register_at_fork"),
    *("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"),
)
MISSING_SIGNALS: Final = ("SIGHUP", "SIGKILL", "SIGUSR1")


class _Finder(importlib.abc.MetaPathFinder):
    """Does not find the modules that Windows does not have."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> None:
        if fullname in MISSING_MODULES:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def remove_posix() -> None:
    """Remove from this process what Windows does not have."""
    for name in MISSING_MODULES:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Finder())
    for module, names in ((os, MISSING_IN_OS), (signal, MISSING_SIGNALS)):
        for name in names:
            delattr(module, name)


async def import_everything() -> None:
    """Import every module of Holdfast, and print those that fail."""
    import holdfast

    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.endswith("__main__"):
            try:
                importlib.import_module(module.name)
            except (ImportError, AttributeError) as error:
                sys.stdout.write(f"{module.name}: {error}\n")


async def run_model() -> None:
    """Declare a model, open the stores that the environment names, and print what a query finds."""
    from holdfast import Attr, Entity, Key, Query, Rate, System, Table, Update, attr, open_stores, pattern
    from holdfast.runtime import create_tables as create

    seats = Table("WindowsSeats", partition="flight", sort="seat")

    class Seat(Entity, table=seats):
        flight: Attr[str] = attr()
        seat: Attr[str] = attr()
        passenger: Attr[str | None] = attr(default=None)
        of = Key(flight, seat)

    def free_seats(flight: str) -> Query[Seat]:
        return Seat.of(flight).query().where(Seat.passenger.not_exists())

    def take(flight: str, seat: str, passenger: str) -> Update[Seat]:
        return Seat.of(flight).update(seat).set(Seat.passenger, passenger).when(Seat.passenger.not_exists())

    rate = Rate(per="search")
    free = pattern("S1", "The free seats of a flight", rate=rate, example=("EY11",))(free_seats)
    taking = pattern("S2", "Take a seat that is free", rate=rate, example=("EY11", "07A", "Amal"))(take)
    system = System("seats", "Seats on flights", tables=[seats], patterns=[free, taking])
    async with open_stores(system) as stores:
        await create(stores, system.tables)
        for seat in ("07A", "07B"):
            await stores.run(Seat.put(Seat(flight="EY11", seat=seat)))
        taken = await stores.run(taking("EY11", "07A", "Amal"))
        left = await stores.run(free("EY11"))
        sys.stdout.write(f"{taken.passenger} has {taken.seat}; free: {[each.seat for each in left]}\n")


async def refuse_embedded_engines() -> None:
    """Open each engine that keeps files, and print the error of each."""
    from holdfast.config.settings import Settings
    from holdfast.core.errors import SettingsError
    from holdfast.runtime import factory

    settings, clock = Settings.load(), Settings.load().clock
    openings: list[Callable[[], Any]] = [
        lambda: factory.open_tables_engine(settings, clock),
        lambda: factory.open_queues_engine(settings, clock),
        lambda: factory.open_cipher(settings),
        lambda: factory.open_sql_engine(settings),
        lambda: _open_objects_folder(),
    ]
    for opening in openings:
        try:
            opening()
        except SettingsError as error:
            sys.stdout.write(f"{error}\n")


def _open_objects_folder() -> None:
    from holdfast.core.clock import SystemClock
    from holdfast.stores.objects.local.file_storage import FolderFileStorage

    FolderFileStorage(Path("objects"), clock=SystemClock())


async def serve() -> None:
    """Start the DynamoDB endpoint in this process and print the tables that boto3 finds there."""
    import boto3

    from holdfast.wire.http.server import start_server

    with start_server(memory=True) as url:
        client = boto3.client(
            "dynamodb",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
        )
        sys.stdout.write(f"{client.list_tables()['TableNames']}\n")


PARTS: Final = {
    "imports": import_everything,
    "model": run_model,
    "embedded": refuse_embedded_engines,
    "server": serve,
}

if __name__ == "__main__":
    remove_posix()
    asyncio.run(PARTS[sys.argv[1]]())
