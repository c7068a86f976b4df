"""The shape that all guarantees share, and the requests that each makes, as its reference page says."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from holdfast import Component, Pattern, Rate, Stores, System, open_memory_stores
from holdfast.core.errors import RateLimited
from holdfast.flows import Flow
from holdfast.guarantees import (
    LEASES,
    RATE_LIMITS,
    Audit,
    Breaker,
    Circuit,
    Claim,
    DelayedActions,
    Lease,
    LeaseItem,
    Migration,
    Once,
    Outbox,
    RateLimit,
    ReadThrough,
    Sessions,
    SqlInbox,
    SqlOutbox,
    WindowLimit,
)
from holdfast.model.cache import CachedValue, WindowCounter
from holdfast.runtime import create_tables
from tests.unit.flows.errands import ERRANDS
from tests.unit.guarantees.cache.test_read_through import Provider
from tests.unit.guarantees.delayed_actions.delayed_letters import letters, make_letter, queue
from tests.unit.guarantees.idempotency.once_records import count, counters, events, make_event, once
from tests.unit.guarantees.messaging.order_outbox import OUTBOX_OF_ORDERS
from tests.unit.guarantees.messaging.sql_shop import INBOX, OUTBOX
from tests.unit.guarantees.table_migration.harbour import MOORINGS
from tests.unit.guarantees.test_audit import AUDIT

BREAKER = Breaker(Circuit, prefix="CB", rate=Rate("call"))
LEASE = Lease(LeaseItem, prefix="LE", rate=Rate("sweep"))
LIMIT = RateLimit("calls", prefix="RL", rate=Rate("call"), limit=1, window_s=3600)
WINDOWS = WindowCounter("calls:{tenant}:{window}", window_s=3600)
FIELDS = {"tenant": "t-1"}
FIXED = WindowLimit(WINDOWS, prefix="WF", rate=Rate("call"), example=FIELDS, limit=9)
SLIDING = WindowLimit(WINDOWS, prefix="WS", rate=Rate("call"), example=FIELDS, limit=9, sliding=True)
PROVIDERS = ReadThrough(
    CachedValue("provider:{npi}", Provider, lifetime_s=60),
    prefix="PR",
    rate=Rate("call"),
    example={"npi": "1"},
)
SESSIONS = Sessions(
    "session:{id}",
    Provider,
    prefix="SE",
    rate=Rate("call"),
    example={},
    example_value=Provider(npi="1"),
    lifetime_s=60,
)
OUTBOXES = (OUTBOX_OF_ORDERS, OUTBOX)
DECLARED = (
    *(once, queue, AUDIT, LEASE, LIMIT, FIXED, SLIDING, PROVIDERS, SESSIONS, MOORINGS, ERRANDS),
    *(*OUTBOXES, INBOX, BREAKER),
)
CLASSES = (
    *(Once, DelayedActions, Audit, Lease, RateLimit, WindowLimit, ReadThrough, Sessions, Migration, Flow),
    *(Outbox, SqlOutbox, SqlInbox, Breaker),
)
KEYWORDS = {
    "prefix",
    "rate",
    "read_rate",
    "example",
    "lease_s",
    "window_s",
    "retention_s",
    "limit",
    "version",
}


@pytest.mark.parametrize("guarantee", DECLARED, ids=lambda each: type(each).__name__)
def test_patterns_are_tuples_split_into_reads_and_writes(guarantee: Any) -> None:
    assert isinstance(guarantee.name, str) and guarantee.name
    assert {type(each) for each in (guarantee.patterns, guarantee.reads, guarantee.writes)} == {tuple}
    assert [each for each in guarantee.patterns if each in guarantee.reads] == list(guarantee.reads)
    assert sorted(each.id for each in (*guarantee.reads, *guarantee.writes)) == sorted(
        each.id for each in guarantee.patterns
    )
    assert not any(each.build_example().writes for each in guarantee.reads)
    assert all(each.build_example().writes for each in guarantee.writes)
    assert set(guarantee.pattern_set) <= set(guarantee.patterns)


@pytest.mark.parametrize(
    ("guarantee", "role"),
    [
        *((queue, role) for role in ("author", "reviewer", "executor")),
        *((LEASE, role) for role in ("holder", "observer")),
        *((ERRANDS, role) for role in ("starter", "answerer")),
        *((each, role) for each in OUTBOXES for role in ("publisher", "relay", "operator")),
        *((INBOX, role) for role in ("consumer", "operator")),
    ],
    ids=lambda each: each if isinstance(each, str) else type(each).__name__,
)
def test_role_has_patterns_of_the_guarantee_only(guarantee: Any, role: str) -> None:
    used = Component(role, uses=(getattr(guarantee, role),)).patterns

    assert used and set(used) <= set(guarantee.patterns)


@pytest.mark.parametrize("outbox", OUTBOXES, ids=lambda each: type(each).__name__)
def test_outbox_and_each_of_its_roles_name_the_outbox(outbox: Any) -> None:
    for used in (outbox, outbox.publisher, outbox.relay, outbox.operator):
        system = System("shop", "Orders", components=(Component("api", uses=(used,)),))

        assert system.outboxes == (outbox,)
        assert set(system.patterns) == set(outbox.patterns)


@pytest.mark.parametrize("declared", CLASSES, ids=lambda each: each.__name__)
def test_only_the_subject_of_a_guarantee_is_positional(declared: type) -> None:
    parameters = inspect.signature(declared).parameters.values()

    assert not {each.name for each in parameters if each.kind is not each.KEYWORD_ONLY} & KEYWORDS


@pytest.mark.parametrize("declared", [Once, DelayedActions, Audit, Lease, Breaker, Flow])
def test_guarantee_with_one_stored_entity_takes_it_as_entity(declared: type) -> None:
    assert "entity" in inspect.signature(declared).parameters


@pytest.mark.parametrize("declared", CLASSES, ids=lambda each: each.__name__)
def test_methods_that_run_operations_take_the_stores_first(declared: type) -> None:
    methods = {name: found for name, found in vars(declared).items() if not name.startswith("_")}
    taking = {
        name: list(inspect.signature(found).parameters)[1]
        for name, found in methods.items()
        if inspect.isfunction(found) and "stores" in inspect.signature(found).parameters
    }

    assert taking == dict.fromkeys(taking, "stores")


async def list_requests(stores: Stores, story: Any) -> list[str]:
    """Return the ids of the patterns that the story runs, in order; those of a transaction as one text."""
    with stores.meter_usage() as meter:
        await story
    return [usage.pattern or usage.operation for usage in meter.usages]


def ids(*patterns: Pattern[..., Any]) -> list[str]:
    return [each.id for each in patterns]


async def run_twice(stores: Stores) -> None:
    """Claim and complete an event, then request it again."""
    claim = await once.claim(stores, make_event())
    assert isinstance(claim, Claim)
    await claim.complete()
    await once.claim(stores, make_event())


async def call_external(stores: Stores) -> None:
    """Run an effect at an external service."""

    async def act(key: str) -> str:
        return key

    await once.call_external(stores, make_event("evt-2"), act=act, takes_key=True, act_s=1)


async def hold_lease(stores: Stores) -> None:
    async with LEASE.hold(stores, "sweeper") as held:
        await stores.transact(held.check(), count("hits"))


async def take_too_much(stores: Stores) -> None:
    await LIMIT.take(stores, "s-1")
    with pytest.raises(RateLimited):
        await LIMIT.take(stores, "s-1")


async def execute_letter(stores: Stores) -> None:
    """Delay a letter, and execute it when it is due."""

    async def act(letter: Any, key: str) -> str:
        return key

    await stores.run(queue.delay(stores, make_letter(), for_s=0))
    await queue.execute(stores, make_letter(), act=act, takes_key=True, act_s=1)


async def load_value(stores: Stores) -> None:
    """Load a value, then get it from the cache."""

    async def load() -> Provider:
        return Provider(npi="1")

    await PROVIDERS.get(stores, load, npi="1")
    await PROVIDERS.get(stores, load, npi="1")


async def visit(stores: Stores) -> None:
    """Begin, find and end a session."""
    id = await SESSIONS.begin(stores, Provider(npi="1"))
    assert await SESSIONS.find(stores, id)
    await SESSIONS.end(stores, id)


_ONCE, _HOLD, _LEASE, _LIMIT = once.pattern_set, queue.pattern_set, LEASE.pattern_set, LIMIT.pattern_set
_LOAD, _SESSION = PROVIDERS.pattern_set, SESSIONS.pattern_set
COSTS: list[tuple[Any, list[str]]] = [
    (run_twice, ids(_ONCE.claim, _ONCE.complete, _ONCE.claim)),
    (call_external, ids(_ONCE.claim, _ONCE.complete)),
    (hold_lease, [*ids(_LEASE.read, _LEASE.take), f"{_LEASE.check.id}+{count.id}", _LEASE.keep.id]),
    (take_too_much, ids(_LIMIT.counts, _LIMIT.keep, _LIMIT.counts)),
    (execute_letter, ids(_HOLD.hold, _HOLD.one, _HOLD.take, _HOLD.complete)),
    (lambda stores: FIXED.take(stores, tenant="t-1"), ids(*FIXED.patterns)),
    (lambda stores: SLIDING.take(stores, tenant="t-2"), ids(*SLIDING.patterns)),
    (load_value, ids(_LOAD.peek, _LOAD.lock, _LOAD.peek, _LOAD.keep, _LOAD.unlock, _LOAD.peek)),
    (visit, ids(_SESSION.begin, _SESSION.find, _SESSION.renew, _SESSION.end)),
]


@pytest.mark.parametrize(
    ("story", "expected"),
    COSTS,
    ids=["once", "external", "lease", "rate", "delayed", "fixed", "sliding", "read-through", "sessions"],
)
async def test_guarantee_makes_the_requests_that_its_page_states(story: Any, expected: list[str]) -> None:
    async def run() -> list[str]:
        async with open_memory_stores() as stores:
            await create_tables(stores, [events, counters, letters, LEASES, RATE_LIMITS])
            return await list_requests(stores, story(stores))

    assert await run() == expected
