"""The digest: once a day, with what matters in it; and that nothing is ever pruned."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import pytest

from agenticpm.model import agent_settings, budget, patterns
from agenticpm.model.entities import Event
from agenticpm.system import SYSTEM
from agenticpm.workers import digest
from holdfast.model.entities.writes import Delete
from tests.unit.agenticpm.loop_play import Play, played

DAY_S = 86400.0


async def daily(play: Play) -> digest.Digest | None:
    return await digest.make_daily_digest(play.stores.for_component("loop"))


async def told(play: Play, type: str) -> list[Event]:
    return [each for each in await play.stores.all(patterns.recent_events()) if each.event_type == type]


@pytest.mark.proves("AP-49")
def test_each_day_has_one_digest_and_one_measure() -> None:
    async def story(play: Play) -> None:
        assert await daily(play) is not None
        play.clock.advance(3600)
        assert await daily(play) is None
        play.clock.advance(DAY_S)
        assert await daily(play) is not None
        assert len(await told(play, "digest_prepared")) == 2
        measured = await told(play, "storage_measured")
        assert [each.severity for each in measured] == ["info", "info"]
        detail = measured[0].detail or {}
        assert detail["projected"] == 120_000_000 and detail["bytes"] > 0 and detail["items"] > 0

    played(story)


def test_it_comes_when_work_begins_and_not_at_night() -> None:
    async def story(play: Play) -> None:
        play.clock.advance(11 * 3600)
        assert await daily(play) is None
        play.clock.advance(13 * 3600)
        made = await daily(play)
        assert made is not None and made.day.isoformat() == "2026-02-05"

    played(story)


def test_of_several_instances_at_once_one_makes_it() -> None:
    async def story(play: Play) -> None:
        await agent_settings.put(play.stores, "digest_recipients", "sponsor@example.com")
        made = await asyncio.gather(*(daily(play) for _ in range(4)))
        assert len([each for each in made if each is not None]) == 1
        assert len(await told(play, "digest_prepared")) == 1
        assert len(await play.actions(None)) == 1

    played(story)


def test_it_says_what_happened_what_waits_and_what_was_spent() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"allowed_actions": ["comment"]})
        play.tracker.block("MCU-1")
        await play.cycle()
        await budget.spend(play.stores.for_component("loop"), Decimal("0.11"))
        made = await daily(play)
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
        (event,) = await told(play, "digest_prepared")
        assert (event.detail or {})["text"] == made.text

    played(story)


def test_what_is_older_than_a_day_is_not_in_it() -> None:
    async def story(play: Play) -> None:
        await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        play.clock.advance(DAY_S + 60)
        made = await daily(play)
        assert made is not None and "0 signals, 0 actions, 0 errors" in made.text.splitlines()

    played(story)


def test_the_mail_of_it_is_held_and_can_be_sent_once() -> None:
    async def story(play: Play) -> None:
        await agent_settings.put(play.stores, "digest_recipients", "a@example.com, b@example.com")
        made = await daily(play)
        assert made is not None
        assert (await play.execute()).done == []
        play.clock.advance(30 * 60)
        assert len((await play.execute()).done) == 1
        (mail,) = play.mailer.ledger.values()
        assert mail.to == ("a@example.com", "b@example.com")
        assert (mail.subject, mail.text) == ("Digest of 2026-02-04", made.text)

    played(story)


def test_without_recipients_nobody_is_mailed() -> None:
    async def story(play: Play) -> None:
        assert await daily(play) is not None
        assert await play.actions(None) == ()

    played(story)


@pytest.mark.proves("AP-49")
def test_people_are_warned_before_what_is_stored_passes_what_was_projected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(play: Play) -> None:
        await daily(play)
        (measured,) = await told(play, "storage_measured")
        size = (measured.detail or {})["bytes"]
        monkeypatch.setattr(digest, "STORED_BYTES_PROJECTED", int(size))
        play.clock.advance(DAY_S)
        await daily(play)
        newest, _ = await told(play, "storage_measured")
        assert newest.severity == "warning"

    played(story)


@pytest.mark.proves("AP-49")
def test_no_pattern_of_any_component_deletes() -> None:
    for component in SYSTEM.components:
        for pattern in (*component.reads, *component.writes):
            operation = pattern.build_example()
            parts = (operation, *(operation.parts or ()))
            assert not [each for each in parts if isinstance(each, Delete) or "Delete" in type(each).__name__]


@pytest.mark.proves("AP-49")
def test_a_month_of_digests_removes_nothing_that_is_alive() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        before = {key for key in await play.items() if not key[1].startswith("EVENT#")}
        for _ in range(30):
            play.clock.advance(DAY_S)
            await daily(play)
        assert before <= set(await play.items())
        assert len(await told(play, "digest_prepared")) == 30
        assert await play.stores.run(patterns.project(project.id)) is not None

    played(story)
