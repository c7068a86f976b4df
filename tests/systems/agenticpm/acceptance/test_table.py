"""The document's single table on the embedded engine in memory: keys, index, lifetimes and patterns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.entities import (
    GLOBAL,
    Action,
    AgentConfig,
    Artefact,
    Checkpoint,
    Escalation,
    EscalationStatus,
    Event,
    EventType,
    Integration,
    IntegrationConfig,
    Option,
    Project,
    ProjectId,
    ProjectStatus,
    Severity,
    Source,
    contents,
    get_scope,
    gsi1,
    table,
)
from agenticpm.model.events import build_event_writes, get_now
from agenticpm.model.patterns import ACTION_QUEUE
from agenticpm.system import SYSTEM
from holdfast import ALL, Entity, Page, Query, Stores, open_memory_stores
from holdfast.core.errors import ConditionFailed, TransactionCancelled
from holdfast.model.entities import Scan
from holdfast.model.system import collect_patterns
from holdfast.operations.tables import GetItem
from holdfast.runtime import create_tables, describe_table
from tests.background_work import stop_background_work
from tests.systems.agenticpm.unit.samples import ManualClock

NOW = datetime(2026, 2, 4, 23, 30, 15, 250_000, tzinfo=UTC)
PROJECT = ProjectId("6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11")
OTHER = ProjectId("7a1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a22")
UUID = "0f6d9a11-2f1a-4a55-8c3e-8b1c6f1c7f5e"
ULID = "01KGN1V2ZZEXAMPLE000000000"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await create_tables(stores, SYSTEM.tables)
        yield stores


def make_project(id: ProjectId = PROJECT, **more: Any) -> Project:
    """Make a project; `more` overrides its fields."""
    given: dict[str, Any] = {
        "name": "Member profile",
        "source": Source.jira,
        "source_project_key": "MCU",
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Project(id=id, **(given | more))


def make_escalation(**more: Any) -> Escalation:
    given: dict[str, Any] = {
        "id": UUID,
        "project_id": PROJECT,
        "title": "Beta launch is at risk",
        "context": {"milestone": "Beta"},
        "options": [Option(option="Delay", pros=["Lower risk"]), Option(option="Rush", cons=["Quality"])],
        "created_at": NOW,
    }
    return Escalation(**(given | more))


def make_action(**more: Any) -> Action:
    given: dict[str, Any] = {
        "scope": get_scope(PROJECT),
        "id": ULID,
        "project_id": PROJECT,
        "action_type": "email_sent",
        "description": "Ask for the design assets",
        "payload_sha256": "0" * 64,
        "created_at": NOW,
        "expires_at": NOW + timedelta(days=90),
    }
    return Action(**(given | more))


EVENT = Event(
    scope=get_scope(PROJECT),
    id=ULID,
    project_id=PROJECT,
    event_type="heartbeat",
    summary="x",
    detail={"tickets": 3},
    created_at=NOW,
    day=NOW.date(),
)
REFERENCE = EVENT.model_copy(update={"scope": GLOBAL, "detail": None, "day": None})
ARTEFACT = Artefact(
    id=UUID,
    project_id=PROJECT,
    type=ArtefactType.raid_log,
    content={"items": []},
    created_at=NOW,
    updated_at=NOW,
)
CHECKPOINT = Checkpoint(
    project_id=PROJECT,
    integration="jira",
    checkpoint_key="last_sync",
    checkpoint_value="2026-02-04T10:30:00.000Z",
    updated_at=NOW,
)
INTEGRATION = IntegrationConfig(
    id=UUID, integration=Integration.jira, config_encrypted="SEYx", created_at=NOW, updated_at=NOW
)
CONFIG = AgentConfig(key="hold_queue_minutes", value=30, updated_at=NOW)

STAMP = "2026-02-04T23:30:15.250Z"


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-1", "AP-57")
async def test_table_matches_the_document(stores: Stores) -> None:
    assert (table.name, table.partition, table.sort, table.ttl) == ("AgenticPM", "PK", "SK", "TTL")
    assert table.point_in_time_recovery
    assert [(each.name, each.partition, each.sort) for each in table.indexes] == [
        ("GSI1", "GSI1PK", "GSI1SK")
    ]
    assert gsi1.projection == ALL
    assert SYSTEM.tables == (table,)

    made = await describe_table(stores, table)
    assert made is not None and made.definition.billing_mode == "PAY_PER_REQUEST"


@pytest.mark.proves("AP-2", "AP-3", "AP-4", "AP-5", "AP-6", "AP-7", "AP-8", "AP-9", "AP-10", "AP-X19")
@pytest.mark.parametrize(
    ("entity", "partition", "sort"),
    [
        (make_project(), f"PROJECT#{PROJECT}", "METADATA"),
        (ARTEFACT, f"PROJECT#{PROJECT}", "ARTEFACT#raid_log"),
        (EVENT, f"PROJECT#{PROJECT}", f"EVENT#{STAMP}#{ULID}"),
        (make_escalation(), f"PROJECT#{PROJECT}", f"ESCALATION#{UUID}"),
        (make_action(), f"PROJECT#{PROJECT}", f"ACTION#{STAMP}#{ULID}"),
        (CHECKPOINT, f"PROJECT#{PROJECT}", "CHECKPOINT#jira#last_sync"),
        (INTEGRATION, "INTEGRATION#jira", "CONFIG"),
        (CONFIG, "AGENT", "CONFIG#hold_queue_minutes"),
        (REFERENCE, "GLOBAL", f"EVENT#{STAMP}#{ULID}"),
    ],
)
async def test_item_has_the_documents_key(stores: Stores, entity: Entity, partition: str, sort: str) -> None:
    await stores.run(type(entity).put(entity))
    kept = await stores.tables.run(GetItem(table.name, {"PK": partition, "SK": sort}))
    assert kept.item == entity.to_item()


@pytest.mark.proves("AP-11", "AP-29", "AP-X6")
@pytest.mark.parametrize("status", ProjectStatus)
def test_indexes_a_project_in_every_status(status: ProjectStatus) -> None:
    item = make_project(status=status).to_item()
    assert (item["GSI1PK"], item["GSI1SK"]) == (f"STATUS#{status}", f"PROJECT#{PROJECT}")


@pytest.mark.proves("AP-20", "AP-30", "AP-X6", "AP-X12")
@pytest.mark.parametrize("status", EscalationStatus)
def test_indexes_an_escalation_in_every_status_by_creation_time(status: EscalationStatus) -> None:
    more = {"user_decision": "Delay", "decided_at": NOW + timedelta(days=3)} if status == "decided" else {}
    item = make_escalation(status=status, **more).to_item()
    assert (item["GSI1PK"], item["GSI1SK"]) == (f"ESCALATION#{status}", f"{STAMP}#{UUID}")
    assert "TTL" not in item


@pytest.mark.proves("AP-17", "AP-31", "AP-X21")
def test_indexes_an_event_by_its_utc_day() -> None:
    in_sydney = NOW.astimezone(datetime.strptime("+1100", "%z").tzinfo)
    assert in_sydney.day == NOW.day + 1
    event = EVENT.model_copy(update={"created_at": in_sydney})
    item = event.to_item()
    assert (item["GSI1PK"], item["GSI1SK"]) == ("EVENT#2026-02-04", f"{STAMP}#{ULID}")
    with pytest.raises(ValueError, match="is not the day of"):
        Event(**(EVENT.model_dump() | {"day": in_sydney.date()}))


@pytest.mark.proves("AP-22", "AP-X7")
def test_indexes_only_held_actions_by_due_time() -> None:
    assert "GSI1PK" not in make_action().to_item()
    held = make_action(queue="held", held_until=NOW + timedelta(minutes=30)).to_item()
    assert (held["GSI1PK"], held["GSI1SK"]) == ("ACTION#held", f"2026-02-05T00:00:15.250Z#{ULID}")
    assert held["executed"] is False


# --- lifetimes ----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-45", "AP-46", "AP-X8")
async def test_expiry_counts_from_creation_in_whole_seconds(stores: Stores, clock: ManualClock) -> None:
    born = int(NOW.timestamp())
    assert EVENT.to_item()["TTL"] == born + 2_592_000
    assert REFERENCE.to_item()["TTL"] == born + 2_592_000

    clock.seconds = (NOW + timedelta(days=2)).timestamp()
    # A backfilled event expires no later.
    await stores.transact(*build_event_writes(stores, PROJECT, "imported", "x", at=NOW))
    (event,) = await stores.run(patterns.project_events(PROJECT))
    assert event.to_item()["TTL"] == born + 2_592_000
    assert make_action().to_item()["TTL"] == born + 7_776_000


@pytest.mark.proves("AP-48", "AP-24")
@pytest.mark.parametrize(
    "entity", [make_project(), ARTEFACT, make_escalation(), CHECKPOINT, INTEGRATION, CONFIG]
)
def test_permanent_items_have_no_expiry(entity: Entity) -> None:
    assert "TTL" not in entity.to_item()


@pytest.mark.proves("AP-47", "AP-X16")
async def test_expired_items_are_not_read_though_they_still_exist(stores: Stores, clock: ManualClock) -> None:
    await stores.transact(*build_event_writes(stores, PROJECT, EventType.heartbeat, "x"))
    stop_background_work(stores.tables)
    clock.seconds = (NOW + timedelta(days=30, seconds=1)).timestamp()
    for query in (
        patterns.project_events(PROJECT),
        patterns.recent_events(),
        patterns.events_of_day(NOW.date()),
    ):
        assert len(await stores.run(query)) == 0
    kept = Event.scan(reason="a test looks at what is stored")
    assert (await stores.run(kept.count())).examined == 2


# --- patterns -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-44")
def test_no_pattern_is_a_scan() -> None:
    operations = [each.build_example() for each in SYSTEM.patterns]
    assert len(operations) > 30
    assert not [each for each in operations if isinstance(each, Scan)]


@pytest.mark.proves("AP-34", "AP-35", "AP-36", "AP-39", "AP-40", "AP-41", "AP-42", "AP-43")
async def test_pattern_finds_only_its_items(stores: Stores) -> None:
    """With the same items in two projects, each read pattern returns those of the requested project."""

    for id in (PROJECT, OTHER):
        await stores.run(patterns.create_project(make_project(id)))
        await stores.run(patterns.create_artefact(ARTEFACT.model_copy(update={"project_id": id})))
        await stores.run(patterns.create_escalation(make_escalation(project_id=id)))
        await stores.run(patterns.put_checkpoint(CHECKPOINT.model_copy(update={"project_id": id}), None))
        await stores.run(Action.put(make_action(project_id=id, scope=get_scope(id))))
        await stores.transact(*build_event_writes(stores, id, EventType.heartbeat, "x"))
    await stores.run(patterns.put_integration(INTEGRATION, None))
    await stores.run(patterns.seed_config(CONFIG))

    assert await stores.run(patterns.project(PROJECT)) == make_project()
    assert await stores.run(patterns.artefact(PROJECT, ArtefactType.raid_log)) == ARTEFACT
    assert await stores.run(patterns.artefact(PROJECT, ArtefactType.delivery_state)) is None
    assert list(await stores.run(patterns.artefacts(PROJECT))) == [ARTEFACT]
    assert list(await stores.run(patterns.project_escalations(PROJECT))) == [make_escalation()]
    (kept,) = await stores.run(patterns.project_actions(PROJECT))
    # As stored: expiry is in whole seconds.
    assert kept.to_item() == make_action().to_item()
    assert await stores.run(patterns.checkpoint(PROJECT, "jira", "last_sync")) == CHECKPOINT
    assert await stores.run(patterns.checkpoint(PROJECT, "outlook", "delta_token")) is None
    assert await stores.run(patterns.integration_config(Integration.jira)) == INTEGRATION
    assert await stores.run(patterns.agent_config("hold_queue_minutes")) == CONFIG
    assert list(await stores.run(patterns.agent_configs())) == [CONFIG]


@pytest.mark.proves("AP-32", "AP-33")
async def test_index_returns_whole_items(stores: Stores) -> None:
    await stores.run(patterns.create_project(make_project(description="d", config={"a": 1})))
    await stores.run(patterns.create_project(make_project(OTHER, status=ProjectStatus.paused)))
    await stores.run(patterns.create_escalation(make_escalation()))
    await stores.transact(*build_event_writes(stores, PROJECT, EventType.heartbeat, "x", {"tickets": 3}))
    assert list(await stores.run(patterns.projects_in())) == [make_project(description="d", config={"a": 1})]
    assert list(await stores.run(patterns.escalations_in())) == [make_escalation()]
    (event,) = await stores.run(patterns.events_of_day(NOW.date()))
    assert event.detail == {"tickets": 3}


@pytest.mark.proves("AP-37", "AP-38")
async def test_events_come_newest_first_page_by_page(stores: Stores, clock: ManualClock) -> None:
    for number in range(25):
        clock.seconds = (NOW + timedelta(milliseconds=number)).timestamp()
        await stores.transact(*build_event_writes(stores, PROJECT, "numbered", str(number)))
    for query in (lambda after: patterns.project_events(PROJECT, 10, after), _recent_events):
        assert await _read_pages(stores, query) == [str(n) for n in range(24, -1, -1)]


def _recent_events(after: str | None) -> Query[Event]:
    return patterns.recent_events(10, after)


async def _read_pages(stores: Stores, query: Callable[[str | None], Query[Event]]) -> list[str]:
    """Read all pages of ten and return the summaries in order."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page: Page[Event] = await stores.run(query(cursor))
        assert len(page) <= 10
        found += [each.summary for each in page]
        cursor = page.cursor
        if cursor is None:
            return found


# --- events -------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-18", "AP-19")
async def test_writes_an_event_and_its_reference_together_or_not_at_all(
    stores: Stores, clock: ManualClock
) -> None:
    event, reference = build_event_writes(
        stores, PROJECT, EventType.error, "x", {"a": 1}, severity=Severity.error
    )
    await stores.run(reference)
    with pytest.raises(TransactionCancelled):
        await stores.transact(event, reference)
    assert len(await stores.run(patterns.project_events(PROJECT))) == 0

    clock.advance(1)
    await stores.transact(*build_event_writes(stores, PROJECT, EventType.error, "y", {"a": 1}))
    (full,) = await stores.run(patterns.project_events(PROJECT))
    newest, _ = await stores.run(patterns.recent_events())
    assert (newest.id, newest.project_id, newest.summary) == (full.id, PROJECT, "y")
    assert full.detail == {"a": 1} and newest.detail is None
    assert "detail" not in newest.to_item() and "GSI1PK" not in newest.to_item()


@pytest.mark.proves("AP-X4")
async def test_event_and_action_without_a_project_are_under_global(stores: Stores) -> None:
    await stores.transact(*build_event_writes(stores, None, EventType.config_changed, "x", {"key": "a"}))
    await stores.run(Action.put(make_action(scope=GLOBAL, project_id=None)))
    (event,) = await stores.run(patterns.recent_events())
    assert (event.scope, event.project_id, event.detail) == (GLOBAL, None, {"key": "a"})
    (kept,) = await stores.run(patterns.project_actions(None))
    assert kept.to_item()["PK"] == "GLOBAL" and "projectId" not in kept.to_item()
    with pytest.raises(ValueError, match="does not belong to"):
        make_action(scope=GLOBAL)


@pytest.mark.proves("AP-X5")
async def test_daily_feed_and_daily_index_return_the_same_events(stores: Stores, clock: ManualClock) -> None:
    for hours in range(0, 48, 3):
        clock.seconds = (NOW.replace(hour=0) + timedelta(hours=hours)).timestamp()
        of = (PROJECT, OTHER, None)[hours % 9 // 3]
        await stores.transact(*build_event_writes(stores, of, "numbered", str(hours)))
    feed = [
        (each.id, each.project_id, each.summary, each.created_at)
        for each in await stores.all(patterns.recent_events())
        if each.created_at.date() == NOW.date()
    ]
    day = await stores.all(patterns.events_of_day(NOW.date()))
    assert len(day) == 8
    assert feed[::-1] == [(each.id, each.project_id, each.summary, each.created_at) for each in day]


@pytest.mark.proves("AP-X9")
async def test_writes_and_compares_attributes_with_reserved_names(stores: Stores) -> None:
    """`status` and `value` are reserved words: DynamoDB's expressions need aliases for them."""

    await stores.run(patterns.create_project(make_project()))
    changed = await stores.run(patterns.change_status(make_project(), ProjectStatus.paused, NOW))
    assert (changed.status, changed.to_item()["GSI1PK"]) == (ProjectStatus.paused, "STATUS#paused")
    with pytest.raises(ConditionFailed):
        await stores.run(patterns.change_status(make_project(), ProjectStatus.archived, NOW))
    await stores.run(patterns.seed_config(CONFIG))
    newer = CONFIG.model_copy(update={"value": 15})
    await stores.run(patterns.put_record(newer, CONFIG))
    with pytest.raises(ConditionFailed):
        await stores.run(patterns.put_record(newer, CONFIG))


@pytest.mark.proves("AP-24", "AP-X15")
async def test_checkpoint_is_overwritten_only_by_a_writer_that_read_it(stores: Stores) -> None:
    first = CHECKPOINT.model_copy(update={"integration": "a tracker to come"})
    await stores.run(patterns.put_checkpoint(first, None))
    second = first.model_copy(update={"checkpoint_value": "b"})
    await stores.run(patterns.put_checkpoint(second, first.checkpoint_value))
    for seen in (None, first.checkpoint_value):
        with pytest.raises(ConditionFailed):
            await stores.run(patterns.put_checkpoint(second, seen))
    found = await stores.run(patterns.checkpoint(PROJECT, "a tracker to come", "last_sync"))
    assert found == second


@pytest.mark.proves("AP-26")
@pytest.mark.parametrize("value", ["text", 15, Decimal("0.33"), {"start": "08:00", "nested": {"a": [1]}}])
async def test_setting_holds_texts_numbers_and_maps(stores: Stores, clock: ManualClock, value: Any) -> None:
    await stores.run(patterns.put_config(AgentConfig(key="k", value=value, updated_at=get_now(clock))))
    found = await stores.run(patterns.agent_config("k"))
    assert found is not None and found.value == value


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    "broken",
    [
        lambda: make_project(status="retired"),
        lambda: make_project(source="trello"),
        lambda: make_project(autonomy_level="full"),
        lambda: make_project(id=ProjectId("seven")),
        lambda: Event(**(EVENT.model_dump() | {"severity": "bad"})),
        lambda: make_escalation(status="open"),
        lambda: make_escalation(options=[]),
        lambda: make_escalation(agent_recommendation="Panic"),
        lambda: make_escalation(user_decision="Delay"),
        lambda: IntegrationConfig(**(INTEGRATION.model_dump() | {"integration": "trello"})),
        lambda: Project(id=PROJECT, source=Source.jira, created_at=NOW, updated_at=NOW),  # type: ignore[call-arg]
    ],
)
def test_invalid_item_cannot_be_constructed(
    broken: Callable[[], Entity],
) -> None:
    """Each builds an entity with an invalid value, which raises ValidationError."""
    with pytest.raises(ValidationError):
        broken()


def test_system_declares_every_pattern() -> None:
    assert set(collect_patterns(patterns)) <= set(SYSTEM.patterns)
    assert set(ACTION_QUEUE.patterns) <= set(SYSTEM.patterns)
    assert SYSTEM.buckets == (contents,)
