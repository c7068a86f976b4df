"""Audit entries on every tables engine: created once, listed in order, atomic with their transaction."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.core.errors import ConditionFailed, TransactionCancelled
from tests.unit.guarantees.test_audit import AUDIT, ROUTE, Conversation, action_audit, conversations

from .conftest import OpenStores

# In the future, so that no engine treats the entries as expired.
NOON = datetime(2126, 2, 4, 12, tzinfo=UTC)


def test_entries_are_created_once_and_read_in_order_by_pages_and_by_time(open_stores: OpenStores) -> None:
    stores = open_stores(action_audit)

    async def story() -> None:
        for number in range(5):
            at = NOON + timedelta(minutes=number)
            await stores.run(AUDIT.record(stores, {"n": number}, at=at, id=f"a-{number}", **ROUTE))
        with pytest.raises(ConditionFailed):
            await stores.run(AUDIT.record(stores, {"n": 9}, at=NOON, id="a-0", **ROUTE))
        first = await stores.run(AUDIT.pattern_set.history("c-1", 3))
        rest = await stores.run(AUDIT.pattern_set.history("c-1", 3, first.cursor))
        assert [each.parsed_payload["n"] for each in (*first, *rest)] == [0, 1, 2, 3, 4]
        span = AUDIT.pattern_set.between("c-1", NOON + timedelta(minutes=1), NOON + timedelta(minutes=3))
        assert [each.parsed_payload["n"] for each in await stores.run(span)] == [1, 2, 3]

    asyncio.run(story())


def test_entry_commits_or_rolls_back_with_its_transaction(open_stores: OpenStores) -> None:
    stores = open_stores(action_audit, conversations)

    async def story() -> None:
        change = Conversation.create(Conversation(conversation_id="c-1", team="billing"))
        await stores.transact(change, AUDIT.record(stores, **ROUTE))
        with pytest.raises(TransactionCancelled):
            await stores.transact(change, AUDIT.record(stores, **ROUTE))
        assert len(await stores.run(AUDIT.pattern_set.history("c-1"))) == 1

    asyncio.run(story())
