"""`SqlInbox` on a real PostgreSQL: row and effect commit together, under concurrency and crashes."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

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
from tests.unit.guarantees.idempotency.once_records import OTHER_PAYLOAD, PAYLOAD
from tests.unit.guarantees.messaging.order_outbox import ManualClock
from tests.unit.guarantees.messaging.sql_shop import (
    INBOX,
    SHOP,
    Outside,
    change,
    effect,
    effects,
    open_shop_stores,
    wait_for_a_blocked_query,
)

ROOT = Path(__file__).parents[4]


async def run_effect_once(stores: Stores, message_id: str = "m-1") -> bool:
    """Apply the effect with `run_once`; return False for a repeat."""
    return await INBOX.run_once(stores, "biller", message_id, effect("o-1", 1))


async def receive_and_apply(
    stores: Stores, message_id: str = "m-1", payload: str | None = None
) -> InboxMessage:
    """Receive the message and apply its effect; the result is the number of effects after it."""
    async with INBOX.receive(stores, "biller", message_id, payload) as taken:
        if taken.is_new:
            await taken.run(effect("o-1", 1))
            taken.store_result({"effects": len(await taken.run(effects()))})
    return taken


async def count(stores: Stores) -> int:
    """Return how often the effect was applied."""
    return len(await stores.run(effects()))


@pytest.mark.proves("PG-X26")
async def test_applies_an_effect_once_for_repeated_messages(stores: Stores) -> None:
    assert [await run_effect_once(stores) for _ in range(3)] == [True, False, False]
    assert await count(stores) == 1
    assert await run_effect_once(stores, "m-2")
    assert await INBOX.run_once(stores, "another", "m-1", effect("o-1", 1))
    assert await count(stores) == 3


async def test_one_of_many_concurrent_receivers_applies_the_effect(stores: Stores) -> None:
    assert sorted(await asyncio.gather(*[run_effect_once(stores) for _ in range(8)])) == [False] * 7 + [True]
    assert await count(stores) == 1


@pytest.mark.proves("PG-X26")
async def test_failed_condition_is_not_a_repeat_and_leaves_the_message_unprocessed(stores: Stores) -> None:
    with pytest.raises(ConditionFailed, match="SH2"):
        await INBOX.run_once(stores, "biller", "m-1", change("o-1", 7), effect("o-1", 1))
    assert not await INBOX.is_taken(stores, "biller", "m-1")
    assert await run_effect_once(stores)
    assert await INBOX.is_taken(stores, "biller", "m-1")


async def test_inbox_write_rolls_back_a_repeated_transaction(stores: Stores, clock: ManualClock) -> None:
    at = datetime.fromtimestamp(clock.now(), UTC)
    await stores.transact(effect("o-1", 1), INBOX.take("biller", "m-1", at))
    with pytest.raises(ConditionFailed, match="IN1"):
        await stores.transact(effect("o-1", 1), INBOX.take("biller", "m-1", at))
    assert await count(stores) == 1


async def test_replays_the_result_of_the_first_time(stores: Stores) -> None:
    answers = [await receive_and_apply(stores) for _ in range(3)]
    assert [(each.result["effects"], each.replayed) for each in answers] == [
        (1, False),
        (1, True),
        (1, True),
    ]
    with pytest.raises(InvalidRequest, match="done before"):
        answers[1].store_result("again")


async def test_second_worker_waits_for_the_first_and_gets_its_result(
    stores: Stores, outside: Outside
) -> None:
    async with INBOX.receive(stores, "biller", "m-1") as taken:
        await taken.run(effect("o-1", 1))
        second = asyncio.create_task(receive_and_apply(stores))
        await wait_for_a_blocked_query(outside)
        taken.store_result({"effects": 1})
    assert ((await second).result, (await second).replayed) == ({"effects": 1}, True)


async def test_failed_effect_leaves_nothing_and_the_next_receiver_applies_it(
    stores: Stores, outside: Outside
) -> None:
    second: list[asyncio.Task[InboxMessage]] = []

    async def failing() -> None:
        async with INBOX.receive(stores, "biller", "m-1") as taken:
            await taken.run(effect("o-1", 1))
            second.append(asyncio.create_task(receive_and_apply(stores)))
            await wait_for_a_blocked_query(outside)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await failing()
    assert (await second[0]).is_new
    assert await count(stores) == 1


async def test_receiver_that_waits_too_long_gets_a_retryable_error(url: str, clock: ManualClock) -> None:
    async with open_shop_stores(url, clock=clock, statement_timeout_ms=200) as stores:
        async with INBOX.receive(stores, "biller", "m-1") as taken:
            await taken.run(effect("o-1", 1))
            with pytest.raises(StatementTimedOut):
                await run_effect_once(stores)
        assert await count(stores) == 1


async def test_rejects_the_same_id_with_another_payload(stores: Stores) -> None:
    await receive_and_apply(stores, payload=PAYLOAD)
    with pytest.raises(IdempotencyMismatch):
        await receive_and_apply(stores, payload=OTHER_PAYLOAD)
    assert (await receive_and_apply(stores, payload=PAYLOAD)).replayed
    assert await count(stores) == 1


@pytest.mark.proves("PG-X26")
async def test_process_killed_during_the_effect_leaves_nothing(stores: Stores, outside: Outside) -> None:
    url = f"postgresql://{outside.info.user}@/{outside.info.dbname}?host={outside.info.host}"
    command = [sys.executable, "-m", "tests.unit.guarantees.messaging.inbox_process", url, "m-1"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == "taken\n"
        process.kill()
    assert (await receive_and_apply(stores)).is_new
    assert await count(stores) == 1


async def test_connection_lost_during_the_effect_leaves_nothing(stores: Stores, outside: Outside) -> None:
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
    assert (await receive_and_apply(stores)).is_new
    assert await count(stores) == 1


async def test_sweep_deletes_only_old_rows(stores: Stores, clock: ManualClock, outside: Outside) -> None:
    await run_effect_once(stores, "old-1")
    await run_effect_once(stores, "old-2")
    clock.moment += 3600
    await run_effect_once(stores, "new")
    assert await INBOX.sweep(stores, timedelta(minutes=30)) == 2
    assert outside.execute("SELECT message_id FROM shop.inbox").fetchall() == [{"message_id": "new"}]


async def test_component_receives_messages_only_if_it_declares_so(stores: Stores) -> None:
    assert await run_effect_once(stores.for_component("taker"))
    with pytest.raises(ComponentRefused):
        await run_effect_once(stores.for_component("api"))


@pytest.mark.parametrize("name", ["Inbox", "inbox; drop table x", "a.b", ""])
def test_rejects_an_invalid_name(name: str) -> None:
    with pytest.raises(DeclarationError, match="Invalid table name"):
        SqlInbox(SHOP, prefix="IN", rate=Rate("message"), table=name)
    with pytest.raises(DeclarationError, match="Invalid table name"):
        inbox_ddl("shop", name)


async def test_independent_effect_is_done_once_and_repeated_after_a_lost_answer(stores: Stores) -> None:
    for is_first in (True, False):
        done = await INBOX.run_once(stores, "biller", "m-9", effect("o-1", 1), are_independent=True)
        assert done == is_first
    assert await count(stores) == 1
    with pytest.raises(ConditionFailed):
        await INBOX.run_once(stores, "biller", "m-10", change("o-1", 7), are_independent=True)
    assert not await INBOX.is_taken(stores, "biller", "m-10")
