"""Tests of the daily digest on the loop harness: once a day, its content and its mail; nothing is deleted."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from agenticpm.model import agent_settings, budget, patterns
from agenticpm.model.entities import Event
from agenticpm.system import SYSTEM
from agenticpm.workers import digest
from holdfast.model.entities.writes import Delete
from tests.systems.agenticpm.unit.workers.loop_harness import Harness

DAY_S = 86400.0


async def make_digest(harness: Harness) -> digest.Digest | None:
    return await digest.make_daily_digest(harness.stores.for_component("loop"))


async def list_events(harness: Harness, type: str) -> list[Event]:
    """Return the events of all projects of this type, newest first."""
    return [each for each in await harness.stores.all(patterns.recent_events()) if each.event_type == type]


@pytest.mark.proves("AP-49")
async def test_makes_one_digest_and_one_measurement_a_day(harness: Harness) -> None:
    assert await make_digest(harness) is not None
    harness.clock.advance(3600)
    assert await make_digest(harness) is None
    harness.clock.advance(DAY_S)
    assert await make_digest(harness) is not None
    assert len(await list_events(harness, "digest_prepared")) == 2
    measured = await list_events(harness, "storage_measured")
    assert [each.severity for each in measured] == ["info", "info"]
    detail = measured[0].detail or {}
    assert detail["projected"] == 120_000_000 and detail["bytes"] > 0 and detail["items"] > 0


async def test_makes_no_digest_outside_working_hours(harness: Harness) -> None:
    harness.clock.advance(11 * 3600)
    assert await make_digest(harness) is None
    harness.clock.advance(13 * 3600)
    made = await make_digest(harness)
    assert made is not None and made.day.isoformat() == "2026-02-05"


async def test_one_of_several_concurrent_instances_makes_it(harness: Harness) -> None:
    await agent_settings.put(harness.stores, "digest_recipients", "sponsor@example.com")
    made = await asyncio.gather(*(make_digest(harness) for _ in range(4)))
    assert len([each for each in made if each is not None]) == 1
    assert len(await list_events(harness, "digest_prepared")) == 1
    assert len(await harness.actions(None)) == 1


async def test_reports_events_open_questions_and_costs(harness: Harness) -> None:
    project = await harness.create_project(config={"allowed_actions": ["comment"]})
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    await budget.spend(harness.stores.for_component("loop"), Decimal("0.11"))
    made = await make_digest(harness)
    assert made is not None
    lines = made.text.splitlines()
    assert lines[0] == "Digest of 2026-02-04"
    assert f"{project.name}: amber" in lines or f"{project.name}: red" in lines
    assert "1 signals, 0 actions, 0 errors" in lines
    assert "- MCU-1 (Work on MCU-1) is blocked" in lines
    assert "Pending questions: 0" in lines
    assert "Held actions, executed unless you cancel them: 1" in lines
    assert "Spent today: 0.11 of 0.33 dollars" in lines
    assert any(each.startswith("Stored: ") and each.endswith("of 120 MB projected") for each in lines)
    (event,) = await list_events(harness, "digest_prepared")
    assert (event.detail or {})["text"] == made.text


async def test_leaves_out_anything_older_than_a_day(harness: Harness) -> None:
    await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    harness.clock.advance(DAY_S + 60)
    made = await make_digest(harness)
    assert made is not None and "0 signals, 0 actions, 0 errors" in made.text.splitlines()


async def test_holds_its_mail_which_is_sent_once(harness: Harness) -> None:
    await agent_settings.put(harness.stores, "digest_recipients", "a@example.com, b@example.com,")
    made = await make_digest(harness)
    assert made is not None
    assert (await harness.execute()).done == []
    harness.clock.advance(30 * 60)
    assert len((await harness.execute()).done) == 1
    (mail,) = harness.mailer.ledger.values()
    assert mail.to == ("a@example.com", "b@example.com")
    assert (mail.subject, mail.text) == ("Digest of 2026-02-04", made.text)


async def test_sends_no_mail_without_recipients(harness: Harness) -> None:
    assert await make_digest(harness) is not None
    assert await harness.actions(None) == ()


@pytest.mark.proves("AP-49")
async def test_warns_before_storage_exceeds_the_projection(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_digest(harness)
    (measured,) = await list_events(harness, "storage_measured")
    size = (measured.detail or {})["bytes"]
    monkeypatch.setattr(digest, "STORED_BYTES_PROJECTED", int(size))
    harness.clock.advance(DAY_S)
    await make_digest(harness)
    newest, _ = await list_events(harness, "storage_measured")
    assert newest.severity == "warning"


@pytest.mark.proves("AP-49")
def test_no_component_has_a_delete_pattern() -> None:
    for component in SYSTEM.components:
        for pattern in (*component.reads, *component.writes):
            operation = pattern.build_example()
            parts = (operation, *(operation.parts or ()))
            assert not [each for each in parts if isinstance(each, Delete) or "Delete" in type(each).__name__]


@pytest.mark.proves("AP-49")
async def test_a_month_of_digests_deletes_no_item_but_events(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    before = {key for key in await harness.items() if not key[1].startswith("EVENT#")}
    for _ in range(30):
        harness.clock.advance(DAY_S)
        await make_digest(harness)
    assert before <= set(await harness.items())
    assert len(await list_events(harness, "digest_prepared")) == 30
    assert await harness.stores.run(patterns.project(project.id)) is not None
