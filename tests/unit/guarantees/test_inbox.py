"""The inbox on a real PostgreSQL: the row and the effect are one, whoever else asks and whoever dies over it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from holdfast import Rate, Stores
from holdfast.core.errors import (
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    HoldfastError,
    IdempotencyMismatch,
    InvalidRequest,
    StatementTimedOut,
)
from holdfast.guarantees import SqlInbox, inbox_ddl
from holdfast.guarantees.messaging.inbox import InboxMessage
from tests.postgres import connected, fresh_database
from tests.unit.guarantees.announcing import Hand
from tests.unit.guarantees.once_records import OTHER_PAYLOAD, PAYLOAD
from tests.unit.guarantees.sql_announcing import INBOX, SHOP, change, effect, effects, stores_at

ROOT = Path(__file__).parents[3]

Story = Callable[[Stores, Hand, psycopg.Connection[Any]], Awaitable[None]]


def told(story: Story, *, statement_timeout_ms: int = 15_000) -> None:
    """A story about an inbox that is empty; the connection looks at it from outside."""
    url, clock = fresh_database(SHOP), Hand()

    async def played() -> None:
        with connected(url) as outside:
            outside.row_factory = dict_row
            async with stores_at(url, clock=clock, statement_timeout_ms=statement_timeout_ms) as stores:
                await story(stores, clock, outside)

    asyncio.run(played())


async def once(stores: Stores, message_id: str = "m-1") -> bool:
    return await INBOX.run_once(stores, "biller", message_id, effect("o-1", 1))


async def done(stores: Stores, message_id: str = "m-1", payload: str | None = None) -> InboxMessage:
    """The effect, with how many there were after it as its result."""
    async with INBOX.receive(stores, "biller", message_id, payload) as taken:
        if taken.is_new:
            await taken.run(effect("o-1", 1))
            taken.store_result({"effects": len(await taken.run(effects()))})
    return taken


async def count(stores: Stores) -> int:
    return len(await stores.run(effects()))


async def waits_for_a_lock(outside: psycopg.Connection[Any]) -> None:
    asked = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    while not outside.execute(asked).fetchone():
        await asyncio.sleep(0)


# --- as one write -------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-X26")
def test_an_effect_is_done_once_however_often_its_message_comes() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        assert [await once(stores) for _ in range(3)] == [True, False, False]
        assert await count(stores) == 1
        assert await once(stores, "m-2")
        assert await INBOX.run_once(stores, "another", "m-1", effect("o-1", 1))
        assert await count(stores) == 3

    told(story)


def test_of_many_at_the_same_time_one_does_it() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        assert sorted(await asyncio.gather(*[once(stores) for _ in range(8)])) == [False] * 7 + [True]
        assert await count(stores) == 1

    told(story)


@pytest.mark.proves("PG-X26")
def test_another_condition_that_fails_is_no_repeat_and_leaves_the_message_to_be_taken() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        with pytest.raises(ConditionFailed, match="SH2"):
            await INBOX.run_once(stores, "biller", "m-1", change("o-1", 7), effect("o-1", 1))
        assert not await INBOX.is_taken(stores, "biller", "m-1")
        assert await once(stores)
        assert await INBOX.is_taken(stores, "biller", "m-1")

    told(story)


def test_the_write_undoes_a_transaction_that_repeats() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        at = datetime.fromtimestamp(clock.now(), UTC)
        await stores.transact(effect("o-1", 1), INBOX.take("biller", "m-1", at))
        with pytest.raises(ConditionFailed, match="IN1"):
            await stores.transact(effect("o-1", 1), INBOX.take("biller", "m-1", at))
        assert await count(stores) == 1

    told(story)


# --- with a result ------------------------------------------------------------------------------------------


def test_the_result_of_the_first_time_is_replayed() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        answers = [await done(stores) for _ in range(3)]
        assert [(each.result["effects"], each.replayed) for each in answers] == [
            (1, False),
            (1, True),
            (1, True),
        ]
        with pytest.raises(InvalidRequest, match="done before"):
            answers[1].store_result("again")

    told(story)


def test_a_second_worker_waits_for_the_first_and_has_its_result() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async with INBOX.receive(stores, "biller", "m-1") as taken:
            await taken.run(effect("o-1", 1))
            second = asyncio.create_task(done(stores))
            await waits_for_a_lock(outside)
            taken.store_result({"effects": 1})
        assert ((await second).result, (await second).replayed) == ({"effects": 1}, True)

    told(story)


def test_an_effect_that_fails_leaves_nothing_and_the_next_one_does_it() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        second: list[asyncio.Task[InboxMessage]] = []

        async def failing() -> None:
            async with INBOX.receive(stores, "biller", "m-1") as taken:
                await taken.run(effect("o-1", 1))
                second.append(asyncio.create_task(done(stores)))
                await waits_for_a_lock(outside)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await failing()
        assert (await second[0]).is_new
        assert await count(stores) == 1

    told(story)


def test_who_waits_too_long_is_told_to_come_again() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async with INBOX.receive(stores, "biller", "m-1") as taken:
            await taken.run(effect("o-1", 1))
            with pytest.raises(StatementTimedOut):
                await once(stores)
        assert await count(stores) == 1

    told(story, statement_timeout_ms=200)


def test_the_same_id_with_another_payload_is_refused() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await done(stores, payload=PAYLOAD)
        with pytest.raises(IdempotencyMismatch):
            await done(stores, payload=OTHER_PAYLOAD)
        assert (await done(stores, payload=PAYLOAD)).replayed
        assert await count(stores) == 1

    told(story)


# --- death --------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-X26")
def test_a_process_that_is_killed_in_the_effect_leaves_nothing() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        url = f"postgresql://{outside.info.user}@/{outside.info.dbname}?host={outside.info.host}"
        command = [sys.executable, "-m", "tests.unit.guarantees.inbox_process", url, "m-1"]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert await asyncio.to_thread(process.stdout.readline) == "taken\n"
            process.kill()
        assert (await done(stores)).is_new
        assert await count(stores) == 1

    told(story)


def test_a_connection_that_is_lost_in_the_effect_leaves_nothing() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        async def cut_off() -> None:
            async with INBOX.receive(stores, "biller", "m-1") as taken:
                await taken.run(effect("o-1", 1))
                outside.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
                await taken.run(effect("o-1", 1))

        with pytest.raises(HoldfastError):
            await cut_off()
        assert (await done(stores)).is_new
        assert await count(stores) == 1

    told(story)


# --- sweeping and declaring ---------------------------------------------------------------------------------


def test_a_sweep_forgets_what_is_old_and_nothing_else() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        await once(stores, "old-1")
        await once(stores, "old-2")
        clock.moment += 3600
        await once(stores, "new")
        assert await INBOX.sweep(stores, timedelta(minutes=30)) == 2
        assert outside.execute("SELECT message_id FROM shop.inbox").fetchall() == [{"message_id": "new"}]

    told(story)


def test_a_component_takes_messages_only_if_it_declares_so() -> None:
    async def story(stores: Stores, clock: Hand, outside: psycopg.Connection[Any]) -> None:
        assert await once(stores.for_component("taker"))
        with pytest.raises(ComponentRefused):
            await once(stores.for_component("api"))

    told(story)


@pytest.mark.parametrize("name", ["Inbox", "inbox; drop table x", "a.b", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(DeclarationError, match="Invalid table name"):
        SqlInbox(SHOP, "IN", rate=Rate("message"), table=name)
    with pytest.raises(DeclarationError, match="Invalid table name"):
        inbox_ddl("shop", name)
