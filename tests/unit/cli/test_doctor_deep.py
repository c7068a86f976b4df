"""`holdfast doctor --deep`: everything is read, and each damaged item, message, object and page is named."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from pydantic import BaseModel

from holdfast import Bucket, Queue, System, Table
from holdfast.cli import main
from holdfast.operations.objects import BucketDefinition, CreateBucket, PutObject
from holdfast.operations.queues import CreateQueue, OutgoingMessage, QueueDefinition, SendMessages
from holdfast.operations.tables import (
    CreateBackup,
    CreateTable,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PutItem,
    TableDefinition,
)
from holdfast.operations.values import Item
from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.objects.local import open_local_objects
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import open_tables
from tests.corpus.archive import CORPUS, unpack
from tests.sqlite_files import open_file
from tests.unit.stores.sqlite.test_write_lock import start_holder

ITEMS = 40
WORDS = TableDefinition(
    "Words",
    (KeyAttribute("id", "S"), KeyAttribute("colour", "S")),
    KeySchema("id"),
    global_indexes=(IndexDefinition("by-colour", KeySchema("colour"), IndexProjection()),),
    stream_view="NEW_IMAGE",
)


class Task(BaseModel):
    id: str


OFFICE = System(
    "office",
    "An office",
    tables=[Table("Words", partition="id")],
    queues=[Queue("tasks", Task, purpose="Tasks")],
    buckets=[Bucket("files", purpose="Files")],
)


@pytest.fixture(scope="module")
def sound_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data folder with items, an index, a stream, a backup, messages and objects."""
    folder = tmp_path_factory.mktemp("sound") / "data"
    folder.mkdir(mode=0o700)
    with open_tables(folder / "tables.db") as tables:
        tables.run_blocking(CreateTable(WORDS))
        for number in range(ITEMS):
            item: Item = {"id": f"word-{number:03d}", "colour": "red", "text": f"<{number:05d}>" * 20}
            tables.run_blocking(PutItem("Words", item))
        tables.run_blocking(CreateBackup("Words", "before"))
        tables.sweep()
    with open_queues(folder / "queues.db") as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name="tasks")))
        for number in range(10):
            queues.run_blocking(SendMessages("tasks", (OutgoingMessage(body=f"task {number:03d}"),)))
    asyncio.run(_put_objects(folder))
    return folder


async def _put_objects(folder: Path) -> None:
    objects = open_local_objects(folder / "objects", open_file_cipher(folder / "keys.json"))
    await objects.run(CreateBucket(BucketDefinition(name="files")))
    for name in ("one", "two"):
        await objects.run(
            PutObject(bucket="files", key=f"letters/{name}", body=b"dear " + name.encode() * 100)
        )
    objects.close()


@pytest.fixture
def data(sound_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the folder, to damage, with the office as the only system."""
    shutil.copytree(sound_folder, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"office": OFFICE})
    return tmp_path / "data"


def run_doctor(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Run `holdfast doctor --json` and return its exit code and its rows by store."""
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json", *words])
    assert isinstance(exited.value.code, int)
    return exited.value.code, {each["store"]: each for each in json.loads(capsys.readouterr().out)}


def flip(path: Path, text: bytes, last: bool = False) -> None:
    """Change one bit in the first or last place of this text in a file."""
    content = bytearray(path.read_bytes())
    content[(content.rindex if last else content.index)(text) + 2] ^= 1
    path.write_bytes(content)


def test_sound_folder_is_verified_and_not_changed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}

    code, found = run_doctor(capsys, "--deep")

    assert (code, set(found)) == (0, {"tables", "queues", "objects"})
    assert all(each["detail"].endswith("everything was read and verified") for each in found.values())
    after = {path: path.read_bytes() for path in before if not path.name.endswith(("-shm", "-wal"))}
    assert after == {path: content for path, content in before.items() if path in after}


@pytest.mark.parametrize("has_objects", [True, False])
def test_a_changed_key_is_named(data: Path, capsys: pytest.CaptureFixture[str], *, has_objects: bool) -> None:
    keys = json.loads((data / "keys.json").read_text())
    id, key = next(iter(keys["keys"].items()))
    keys["keys"][id] = ("A" if key[0] != "A" else "B") + key[1:]
    (data / "keys.json").write_text(json.dumps(keys))
    if not has_objects:
        shutil.rmtree(data / "objects")
        (data / ".objects.identity").unlink()

    code, found = run_doctor(capsys, "--deep")

    assert (code, found["objects"]["ok"]) == (1, False)
    assert f"The key '{id}' in" in found["objects"]["detail"]


def test_each_damaged_item_is_named_and_no_other(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in (3, 30):
        flip(data / "tables.db", f"<{number:05d}>".encode())

    code, found = run_doctor(capsys, "--deep")

    detail = found["tables"]["detail"]
    assert (code, found["tables"]["ok"]) == (1, False)
    assert [f"word-{number:03d}" for number in range(ITEMS) if f"word-{number:03d}" in detail] == [
        "word-003",
        "word-030",
    ]
    assert "page " in detail


def test_damaged_change_and_backup_are_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On pages that are valid: only the checksums of the rows show it."""
    connection = open_file(data / "tables.db")
    connection.execute(
        "UPDATE changes_1 SET new = CAST(replace(new, '<00007>', '<00008>') AS BLOB) WHERE seq = 8"
    )
    connection.execute("UPDATE items_2 SET size = size + 1 WHERE id = 4")
    connection.close()

    _, found = run_doctor(capsys, "--deep")

    assert "the change 8 in the log of Words is damaged" in found["tables"]["detail"]
    assert "the item {'id': 'word-003'} of the backup before of Words is damaged" in found["tables"]["detail"]


def test_index_rows_are_compared_with_their_items(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    connection = open_file(data / "tables.db")
    connection.execute("DELETE FROM index_1_1 WHERE pk = CAST('word-005' AS BLOB)")
    connection.execute("UPDATE index_1_1 SET ipk = CAST('blue' AS BLOB) WHERE pk = CAST('word-006' AS BLOB)")
    connection.close()

    code, found = run_doctor(capsys, "--deep")

    detail = found["tables"]["detail"]
    assert code == 1
    assert "the index Words.by-colour lacks the item {'id': 'word-005'}" in detail
    assert "the index Words.by-colour lacks the item {'id': 'word-006'}" in detail
    assert "the index Words.by-colour has a wrong row for {'id': 'word-006'}" in detail
    assert "word-007" not in detail


def test_each_damaged_message_is_named_and_no_other(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(data / "queues.db", b"task 004")

    code, found = run_doctor(capsys, "--deep")

    assert (code, found["tables"]["ok"], found["queues"]["ok"]) == (1, True, False)
    assert "the message 5 of the queue tasks is damaged" in found["queues"]["detail"]
    assert found["queues"]["detail"].count("the message ") == 1


def test_each_damaged_object_is_named_and_no_other(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (file,) = (data / "objects" / "files" / "objects" / "letters").glob("one*")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)

    code, found = run_doctor(capsys, "--deep")

    assert code == 1
    assert "the object letters/one in files is damaged" in found["objects"]["detail"]
    assert "letters/two" not in found["objects"]["detail"]


def test_damaged_key_file_is_found(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flip(data / "keys.json", b'"version"')

    code, found = run_doctor(capsys, "--deep")

    assert code == 1
    assert "Invalid key file" in found["objects"]["detail"]


@pytest.mark.parametrize("name", ["tables.db", "queues.db", "objects", "keys.json"])
def test_quick_check_finds_what_was_lost(data: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    lost = data / name
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
    for beside in data.glob(f"{name}-*"):
        beside.unlink()

    code, found = run_doctor(capsys)

    assert code == 1
    assert (
        next(each["detail"] for each in found.values() if not each["ok"]).count("says that it held data") == 1
    )


def test_quick_check_names_a_stopped_process_with_the_write_lock(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if sys.platform != "linux":
        pytest.skip("only Linux shows in /proc that a process is stopped")
    with start_holder(str(data / "tables.db")) as holder:
        os.kill(holder.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED)
        code, found = run_doctor(capsys)
        os.kill(holder.pid, signal.SIGCONT)
        holder.communicate()

    assert (code, found["tables"]["ok"]) == (1, False)
    assert f"process {holder.pid}, which is stopped, has held it" in found["tables"]["detail"]


def test_quick_check_names_files_that_others_have_access_to(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data / "tables.db").chmod(0o644)
    (data / "objects" / "files").chmod(0o755)

    code, found = run_doctor(capsys)

    assert code == 0
    assert (
        "other users have access to data/tables.db (`chmod go= data/tables.db`)" in found["tables"]["detail"]
    )
    assert "other users have access to data/objects/files (" in found["objects"]["detail"]
    assert (data / "tables.db").stat().st_mode & 0o777 == 0o644


def test_file_of_an_older_version_is_verified_as_far_as_it_can_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data"
    unpack(CORPUS / "v0_1" / "library.tar.xz", folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", dict)

    code, found = run_doctor(capsys, "--deep", "--data", str(folder))

    assert (code, found["tables"]["ok"]) == (0, True)
    connection = apsw.Connection(str(folder / "tables.db"))
    assert connection.pragma("user_version") == 1
    connection.close()
