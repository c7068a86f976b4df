"""Bit rot in a queues file: a damaged message is named and never received, and all others are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from random import Random

import apsw
import pytest

from holdfast.core.errors import DataDamaged, HoldfastError, StoreFileError
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    IncomingMessage,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    Redrive,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from tests.sqlite_files import open_file

MESSAGES = 12
VICTIM = 5
FLIPS = 1_000 if os.environ.get("HOLDFAST_SOAK") == "1" else 60
BODIES = [f"<{number:05d}>" * 20 for number in range(MESSAGES)]
OTHERS = [body for body in BODIES if body != BODIES[VICTIM]]


@pytest.fixture(scope="module")
def sound_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a closed file whose messages share one page: a queue, and one with groups."""
    path = tmp_path_factory.mktemp("sound") / "queues.db"
    with open_queues(path) as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name="jobs")))
        queues.run_blocking(
            CreateQueue(QueueDefinition(name="steps.fifo", fifo=True, content_deduplication=True))
        )
        queues.run_blocking(CreateQueue(QueueDefinition(name="later")))
        for body in BODIES:
            queues.run_blocking(SendMessages("jobs", (OutgoingMessage(body=body),)))
        for number in range(MESSAGES):
            step = OutgoingMessage(body=f"[{number:05d}]" * 20, group=f"g{number % 3}")
            queues.run_blocking(SendMessages("steps.fifo", (step,)))
    return path


@pytest.fixture
def path(sound_file: Path, tmp_path: Path) -> Path:
    """Return the path of a copy of the file, to damage."""
    shutil.copy(sound_file, tmp_path / "queues.db")
    return tmp_path / "queues.db"


def damage(path: Path, text: str) -> None:
    """Change one bit of the first place of this text in the closed file."""
    content = bytearray(path.read_bytes())
    content[content.index(text.encode()) + 2] ^= 1
    path.write_bytes(content)


def receive_all(queues: EmbeddedQueues, queue: str = "jobs") -> list[IncomingMessage]:
    """Receive and delete until nothing is left, or only what is damaged."""
    found: list[IncomingMessage] = []
    while True:
        try:
            received = queues.run_blocking(ReceiveMessages(queue, 3))
        except DataDamaged:
            return found
        if not received:
            return found
        found += received
        queues.run_blocking(DeleteMessages(queue, tuple(each.receipt for each in received)))


def test_damaged_message_is_named_and_all_others_are_received(path: Path) -> None:
    damage(path, BODIES[VICTIM])
    with open_queues(path) as queues:
        assert [each.body for each in receive_all(queues)] == OTHERS
        with pytest.raises(DataDamaged, match=f"Message {VICTIM + 1} of the queue jobs"):
            queues.run_blocking(ReceiveMessages("jobs"))


def test_new_messages_are_received_behind_a_damaged_one(path: Path) -> None:
    damage(path, BODIES[VICTIM])
    with open_queues(path) as queues:
        receive_all(queues)
        queues.run_blocking(SendMessages("jobs", (OutgoingMessage(body="new"),)))
        assert [each.body for each in queues.run_blocking(ReceiveMessages("jobs", 10))] == ["new"]


def test_damaged_message_stops_its_group_and_no_other(path: Path) -> None:
    damage(path, "[00004]")
    with open_queues(path) as queues:
        numbers = sorted(int(each.body[1:6]) for each in receive_all(queues, "steps.fifo"))
        assert numbers == [0, 1, 2, 3, 5, 6, 8, 9, 11]


def test_damage_to_another_field_is_found_too(path: Path) -> None:
    """Written as a program would that does not know the checksums of messages, on a page that is valid."""
    connection = open_file(path)
    connection.execute("UPDATE messages SET receives = 7 WHERE place = 3")
    connection.close()
    with open_queues(path) as queues:
        assert BODIES[2] not in [each.body for each in receive_all(queues)]
        with pytest.raises(DataDamaged, match="Message 3 of"):
            queues.run_blocking(ReceiveMessages("jobs"))


def test_browsing_shows_the_sound_messages(path: Path) -> None:
    damage(path, BODIES[VICTIM])
    with open_queues(path) as queues:
        assert [each.body for each in queues.run_blocking(Browse("jobs", MESSAGES))] == OTHERS


def test_redrive_leaves_a_damaged_message_where_it_is(path: Path) -> None:
    damage(path, BODIES[VICTIM])
    with open_queues(path) as queues:
        queues.run_blocking(ReceiveMessages("jobs", 1, visibility_s=0))
        assert queues.run_blocking(Redrive("jobs", "later")) == MESSAGES - 1
        with pytest.raises(DataDamaged):
            queues.run_blocking(ReceiveMessages("jobs"))


def test_message_that_is_damaged_in_flight_can_be_deleted_and_not_held_longer(path: Path) -> None:
    with open_queues(path) as queues:
        (held,) = queues.run_blocking(ReceiveMessages("jobs"))
        connection = open_file(path)
        connection.execute("UPDATE messages SET body = 'other' WHERE place = 1")
        connection.close()
        with pytest.raises(DataDamaged, match="Message 1 "):
            queues.run_blocking(ChangeVisibility("jobs", (held.receipt,), 60))
        queues.run_blocking(DeleteMessages("jobs", (held.receipt,)))
        assert [each.body for each in receive_all(queues)] == BODIES[1:]


def test_no_flipped_bit_is_received_as_truth(sound_file: Path, tmp_path: Path) -> None:
    """Wherever it is, each message is received as it was sent, or the file says what is wrong."""
    seed = int.from_bytes(os.urandom(4), "big")
    random = Random(seed)
    original = sound_file.read_bytes()
    for number in range(FLIPS):
        offset, bit = random.randrange(len(original)), random.randrange(8)
        content = bytearray(original)
        content[offset] ^= 1 << bit
        damaged = tmp_path / f"{number}.db"
        damaged.write_bytes(content)
        assert _find_wrong_answers(damaged) == "", f"seed {seed}, bit {bit} at {offset}"


def _find_wrong_answers(path: Path) -> str:
    """Return what is wrong: a message that was not sent, or one that is missing without an error."""
    try:
        with open_queues(path) as queues:
            found: set[str] = set()
            try:
                while received := queues.run_blocking(ReceiveMessages("jobs", 3)):
                    found.update(each.body for each in received)
                    queues.run_blocking(DeleteMessages("jobs", tuple(each.receipt for each in received)))
                if lost := set(BODIES) - found:
                    return f"{len(lost)} messages are missing silently"
            except HoldfastError:
                pass
            return "" if found <= set(BODIES) else "a message was never sent"
    except StoreFileError:
        return ""


def test_file_of_an_older_version_gets_its_checksums(sound_file: Path, tmp_path: Path) -> None:
    path = tmp_path / "queues.db"
    shutil.copy(sound_file, path)
    connection = open_file(path)
    connection.execute(
        "ALTER TABLE messages DROP COLUMN sum; ALTER TABLE messages DROP COLUMN hidden_s;"
        "DROP TABLE store_identity; PRAGMA user_version = 1"
    )
    connection.close()
    plain = tmp_path / "plain.db"
    _copy_without_checksums(path, plain)
    with open_queues(plain) as queues:
        assert queues.database.has_checksums
        assert [each.body for each in receive_all(queues)] == BODIES


def _copy_without_checksums(path: Path, target: Path) -> None:
    """Copy the rows to a file as an older version wrote it."""
    source = open_file(path)
    copy = apsw.Connection(str(target), vfs="unix")
    copy.pragma("page_size", 8192)
    copy.execute("PRAGMA application_id = 0x48464451; PRAGMA user_version = 1")
    statements: list[tuple[str]] = source.execute(  # type: ignore[assignment]
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY type DESC"
    ).fetchall()
    for (sql,) in sorted(statements, key=lambda each: "CREATE TABLE" not in each[0]):
        copy.execute(sql)
    for name in ("queues", "messages", "deduplications"):
        for row in source.execute(f"SELECT * FROM {name}").fetchall():
            copy.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    copy.execute("DELETE FROM lots")
    for row in source.execute("SELECT * FROM lots").fetchall():
        copy.execute("INSERT INTO lots VALUES (?, ?, ?)", row)
    source.close()
    copy.close()


def receive_until_refused(queues: EmbeddedQueues) -> list[str]:
    """Return the bodies that are received before a receive is refused."""
    bodies: list[str] = []
    for _ in range(5):
        try:
            bodies += [each.body for each in queues.run_blocking(ReceiveMessages("jobs", 10))]
        except StoreFileError:
            return bodies
    raise AssertionError("nothing was refused")


def test_page_of_zeros_in_a_long_message_is_noticed(path: Path) -> None:
    """Its checksum is valid, and it is in no tree whose structure it would break."""
    with open_queues(path) as queues:
        queues.run_blocking(SendMessages("jobs", (OutgoingMessage(body="<long!>" * 6000),)))
        queues.run_blocking(SendMessages("jobs", (OutgoingMessage(body="last"),)))
    content = path.read_bytes()
    offsets = [at for at in range(0, len(content), 8192) if content[at : at + 8192].count(b"<long!>") > 900]
    assert len(offsets) >= 4
    for offset in offsets:
        damaged = path.with_name(f"at-{offset}.db")
        damaged.write_bytes(content[:offset] + bytes(8192) + content[offset + 8192 :])
        with open_queues(damaged) as queues:
            assert [each.body for each in queues.run_blocking(Browse("jobs", 50))] == [*BODIES, "last"]
            assert receive_until_refused(queues) == [*BODIES, "last"]
