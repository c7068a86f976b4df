"""Processes, threads and tasks on one tables file: no update is lost, and no transaction is seen in part."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from holdfast.stores.tables.embedded import open_tables

from .engine_bank import Tally, assert_books_balance, make_steps, prepare, run, run_async
from .engine_consistency import assert_consistent

ROOT = Path(__file__).parents[3]
SOAK = os.environ.get("HOLDFAST_SOAK") == "1"
SECONDS = 60.0 if SOAK else 2.0
ROUNDS = 500 if SOAK else 25


def test_processes_lose_no_update_and_each_gets_its_share(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with open_tables(path) as tables:
        prepare(tables)
        tallies = run_processes(path, ["first", "second", "third"])
        assert_books_balance(tables, tallies)
        assert_consistent(tables)
    fair = sum(tally.work for tally in tallies.values()) / len(tallies)
    assert min(tally.work for tally in tallies.values()) >= fair / 2
    assert min(tally.looks for tally in tallies.values()) > 0


def run_processes(path: Path, clients: list[str]) -> dict[str, Tally]:
    """Run a process per client for some seconds, all at once, and return their tallies."""
    module = [sys.executable, "-m", "tests.faults.tables.engine_bank", str(path)]
    processes = {
        client: subprocess.Popen(
            [*module, client, str(SECONDS)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for client in clients
    }
    for process in processes.values():
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in processes.values():
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    return {client: Tally(**json.loads(process.communicate()[0])) for client, process in processes.items()}


def test_threads_lose_no_update(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        prepare(tables)
        tallies = {f"thread-{at}": Tally() for at in range(6)}
        with ThreadPoolExecutor(len(tallies)) as threads:
            work = [
                threads.submit(
                    run,
                    make_steps(client, tally, should_continue=make_continue_check(tally)),
                    tables.run_blocking,
                )
                for client, tally in tallies.items()
            ]
        for each in work:
            each.result()
        assert_books_balance(tables, tallies)
        assert_consistent(tables)


def test_threads_on_tables_in_memory_lose_no_update() -> None:
    with open_tables() as tables:
        prepare(tables)
        tallies = {f"thread-{at}": Tally() for at in range(4)}
        with ThreadPoolExecutor(len(tallies)) as threads:
            work = [
                threads.submit(
                    run,
                    make_steps(client, tally, should_continue=make_continue_check(tally)),
                    tables.run_blocking,
                )
                for client, tally in tallies.items()
            ]
        for each in work:
            each.result()
        assert_books_balance(tables, tallies)
        assert_consistent(tables)


async def test_tasks_lose_no_update(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        prepare(tables)
        tallies = {f"task-{at}": Tally() for at in range(12)}

        async def work() -> None:
            clients = [
                run_async(make_steps(client, tally, should_continue=make_continue_check(tally)), tables.run)
                for client, tally in tallies.items()
            ]
            await asyncio.gather(*clients)

        await work()
        assert_books_balance(tables, tallies)
        assert_consistent(tables)


async def test_tasks_and_threads_on_one_store_lose_no_update(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        prepare(tables)
        tallies = {f"client-{at}": Tally() for at in range(6)}
        clients = [
            make_steps(client, tally, should_continue=make_continue_check(tally))
            for client, tally in tallies.items()
        ]

        async def in_tasks() -> None:
            await asyncio.gather(*(run_async(client, tables.run) for client in clients[:3]))

        failures: list[BaseException] = []

        def in_thread(client: int) -> None:
            try:
                run(clients[client], tables.run_blocking)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=in_thread, args=(at,)) for at in (3, 4, 5)]
        for thread in threads:
            thread.start()
        await in_tasks()
        for thread in threads:
            thread.join()
        assert failures == []
        assert_books_balance(tables, tallies)


def make_continue_check(tally: Tally):  # type: ignore[no-untyped-def]
    """Return a function that says whether a client has fewer than `ROUNDS` rounds."""
    return lambda: tally.looks < ROUNDS
