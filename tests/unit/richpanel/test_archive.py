"""The replay archive: off by default, encrypted, read back whole, and ended when it has lived its time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast import open_memory_stores, open_stores, provision
from holdfast.config.settings import Settings
from holdfast.guarantees import scan_files
from richpanel.domain.inbound_events import InboundEvent, build_event_message
from richpanel.model import replay_archive
from richpanel.settings import RichpanelSettings
from richpanel.system import SYSTEM

TEXT = "My parcel 1Z999AA10123456784 is lost, write to ada@example.com"
RECEIVED = datetime(2026, 2, 4, 1, tzinfo=UTC)
DAY_S = 86400


class HandClock:
    def __init__(self) -> None:
        self.seconds = RECEIVED.timestamp()

    def now(self) -> float:
        return self.seconds


def settings_in(folder: Path) -> Settings:
    return Settings(
        tables=f"sqlite:{folder}/tables.db",
        queues=f"sqlite:{folder}/queues.db",
        objects=f"file:{folder}/objects",
        keys=f"file:{folder}/keys.json",
        environment="test",
    )


def test_nobody_archives_who_has_not_said_so() -> None:
    assert not RichpanelSettings.load({}).archive
    assert RichpanelSettings.load({"RP_MW_ARCHIVE": "on"}).archive


@pytest.mark.proves("RP-44")
def test_an_archived_event_is_encrypted_and_comes_back_whole_until_its_time_is_over(tmp_path: Path) -> None:
    clock = HandClock()

    async def story() -> None:
        async with open_stores(SYSTEM, settings_in(tmp_path), clock=clock) as stores:
            await provision(stores, SYSTEM)
            event = InboundEvent(conversation_id="c/1", message_id="m-1", text=TEXT, created_at=RECEIVED)
            message = build_event_message(event, RECEIVED)
            worker = stores.for_component("worker")
            await replay_archive.archive_event(worker, message, event)
            await replay_archive.archive_event(worker, message, event)
            kept = await stores.run(replay_archive.archived("c/1", message.event_id))
            assert TEXT in kept.body.decode()
            await replay_archive.sweep(worker)
            await stores.run(replay_archive.archived("c/1", message.event_id))
            clock.seconds += (replay_archive.LIFETIME_DAYS + 1) * DAY_S
            await replay_archive.sweep(worker)
            listed = await stores.run(replay_archive.replays.list_objects())
            assert listed.objects == ()

    asyncio.run(story())


def test_a_copy_that_comes_another_day_is_archived_once_and_a_conversation_is_listed_alone() -> None:
    async def story() -> list[str]:
        async with open_memory_stores(SYSTEM) as stores:
            await provision(stores, SYSTEM)
            for conversation in ("c-1", "c-11"):
                event = InboundEvent(conversation_id=conversation, message_id="m-1", text=TEXT)
                for days in range(3):
                    message = build_event_message(event, RECEIVED + timedelta(days=days))
                    await replay_archive.archive_event(stores, message, event)
            return [each.key for each in (await stores.run(replay_archive.of_conversation("c-1"))).objects]

    assert asyncio.run(story()) == ["replay/c-1/evt%3Arp%3Ac-1%3Am-1.json"]


def test_the_archive_holds_no_word_that_can_be_read(tmp_path: Path) -> None:
    async def story() -> None:
        async with open_stores(SYSTEM, settings_in(tmp_path), clock=HandClock()) as stores:
            await provision(stores, SYSTEM)
            event = InboundEvent(conversation_id="c-1", message_id="m-1", text=TEXT, created_at=RECEIVED)
            await replay_archive.archive_event(stores, build_event_message(event, RECEIVED), event)

    asyncio.run(story())
    assert scan_files([tmp_path], needles=[TEXT, "ada@example.com", "1Z999AA10123456784"]) == []
    (tmp_path / "planted.txt").write_text(TEXT)
    assert scan_files([tmp_path], needles=[TEXT])
