"""Replay archive, in memory and in files: off by default, encrypted, expired after its lifetime."""

from __future__ import annotations

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


class ManualClock:
    def __init__(self) -> None:
        self.seconds = RECEIVED.timestamp()

    def now(self) -> float:
        return self.seconds


def make_settings(folder: Path) -> Settings:
    """Make settings with all stores in files of a folder."""
    return Settings(
        tables=f"sqlite:{folder}/tables.db",
        queues=f"sqlite:{folder}/queues.db",
        objects=f"file:{folder}/objects",
        keys=f"file:{folder}/keys.json",
        environment="test",
    )


def test_archive_is_off_by_default() -> None:
    assert not RichpanelSettings.load({}).archive
    assert RichpanelSettings.load({"RP_MW_ARCHIVE": "on"}).archive


@pytest.mark.proves("RP-44")
async def test_archived_event_is_encrypted_and_readable_until_it_expires(tmp_path: Path) -> None:
    clock = ManualClock()

    async with open_stores(SYSTEM, make_settings(tmp_path), clock=clock) as stores:
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


async def test_repeated_event_is_archived_once_and_listed_by_conversation() -> None:
    async def scenario() -> list[str]:
        async with open_memory_stores(SYSTEM) as stores:
            await provision(stores, SYSTEM)
            for conversation in ("c-1", "c-11"):
                event = InboundEvent(conversation_id=conversation, message_id="m-1", text=TEXT)
                for days in range(3):
                    message = build_event_message(event, RECEIVED + timedelta(days=days))
                    await replay_archive.archive_event(stores, message, event)
            return [each.key for each in (await stores.run(replay_archive.of_conversation("c-1"))).objects]

    assert await scenario() == ["replay/c-1/evt%3Arp%3Ac-1%3Am-1.json"]


async def test_archive_files_hold_no_readable_text(tmp_path: Path) -> None:
    async with open_stores(SYSTEM, make_settings(tmp_path), clock=ManualClock()) as stores:
        await provision(stores, SYSTEM)
        event = InboundEvent(conversation_id="c-1", message_id="m-1", text=TEXT, created_at=RECEIVED)
        await replay_archive.archive_event(stores, build_event_message(event, RECEIVED), event)
    assert scan_files([tmp_path], needles=[TEXT, "ada@example.com", "1Z999AA10123456784"]) == []
    (tmp_path / "planted.txt").write_text(TEXT)
    assert scan_files([tmp_path], needles=[TEXT])
