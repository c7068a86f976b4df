"""docs/guides/damaged_data.md: each damage gives the message that the page explains."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from holdfast.core.errors import HoldfastError
from holdfast.core.store_marker import get_marker_path
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.objects import BucketDefinition, CreateBucket, GetObject, PutObject
from holdfast.operations.queues import (
    CreateQueue,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.operations.tables import (
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PutItem,
    Query,
    Scan,
    TableDefinition,
)
from holdfast.security.ciphers import FileCipher, open_file_cipher
from holdfast.stores.objects.local import LocalObjects, open_local_objects
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.sqlite import Tuning
from holdfast.stores.sqlite.store_files import refuse_lost_files
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from tests.docs import pages
from tests.sqlite_files import open_file

PAGE: Final = pages.DOCS / "guides" / "damaged_data.md"
SECTIONS: Final = pages.split_sections(PAGE, 2)
MESSAGES: Final = [row[0].strip("` ") for row in pages.parse_rows(SECTIONS["What a message means"])]
# The log is neither truncated nor checkpointed while the test looks at it.
KEEP_LOG: Final = Tuning(log_quiet_s=1000, log_s_max=1000, checkpoint_pages=100_000)
WORDS: Final = TableDefinition(
    "Words",
    (KeyAttribute("id", "S"), KeyAttribute("colour", "S")),
    KeySchema("id"),
    global_indexes=(IndexDefinition("by-colour", KeySchema("colour"), IndexProjection()),),
)

Case = Callable[[Path], object]


def put(tables: EmbeddedTables, *numbers: int) -> None:
    for number in numbers:
        item = PutItem("Words", {"id": f"word-{number:03}", "colour": "red", "text": f"<{number:03}>" * 100})
        tables.run_blocking(item)


def make_closed(folder: Path, count: int = 60) -> Path:
    """Write items into a new store and close it."""
    with open_tables(folder / "tables.db") as tables:
        tables.run_blocking(CreateTable(WORDS))
        put(tables, *range(count))
    return folder / "tables.db"


def make_killed(folder: Path) -> Path:
    """Return a store as a killed process leaves it, with a log."""
    source = folder / "source"
    source.mkdir()
    with open_tables(source / "tables.db", tuning=KEEP_LOG) as tables:
        tables.run_blocking(CreateTable(WORDS))
        put(tables, *range(60))
        for file in (
            tables.database.path,
            f"{tables.database.path}-wal",
            get_marker_path(tables.database.path),
        ):
            shutil.copy(file, folder)
    return folder / "tables.db"


def replace_all(path: Path, text: bytes, changed: bytes) -> None:
    path.write_bytes(path.read_bytes().replace(text, changed))


def zero_after(path: Path, offset: int) -> None:
    """Write zeros over the rest of the file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes(path.stat().st_size - offset))


def flip(path: Path, *offsets: int) -> None:
    content = bytearray(path.read_bytes())
    for offset in offsets:
        content[offset] ^= 1
    path.write_bytes(content)


# --- files --------------------------------------------------------------------------------------------------


def open_emptied(folder: Path) -> None:
    path = make_closed(folder)
    for file in folder.glob("tables.db*"):
        file.unlink()
    open_tables(path)


def open_log_without_database(folder: Path) -> None:
    path = make_killed(folder)
    path.unlink()
    open_tables(path)


def open_without_log(folder: Path) -> None:
    path = make_killed(folder)
    Path(f"{path}-wal").unlink()
    open_tables(path)


def open_with_cut_log(folder: Path) -> None:
    path = make_killed(folder)
    os.truncate(f"{path}-wal", Path(f"{path}-wal").stat().st_size // 2)
    open_tables(path)


def open_with_older_log(folder: Path) -> None:
    path = make_killed(folder)
    log = Path(f"{path}-wal").read_bytes()
    with open_tables(path) as tables:
        put(tables, 1000)
    Path(f"{path}-wal").write_bytes(log[: len(log) // 2])
    open_tables(path)


def open_with_damaged_log(folder: Path) -> None:
    path = make_killed(folder)
    Path(get_marker_path(path)).unlink()
    flip(Path(f"{path}-wal"), Path(f"{path}-wal").stat().st_size // 3)
    open_tables(path)


def open_older_copy(folder: Path) -> None:
    path = make_closed(folder)
    older = path.read_bytes()
    with open_tables(path) as tables:
        put(tables, 1000)
    path.write_bytes(older)
    open_tables(path)


def open_other_store(folder: Path) -> None:
    path = make_closed(folder)
    (folder / "other").mkdir()
    shutil.copy(make_closed(folder / "other"), path)
    open_tables(path)


def write_after_removal(folder: Path) -> None:
    with open_tables(make_closed(folder)) as tables:
        Path(tables.database.path).unlink()
        assert tables.database._files is not None
        tables.database._files._look_at = 0
        put(tables, 1000)


def write_after_index_damage(folder: Path) -> None:
    with open_tables(make_closed(folder), tuning=KEEP_LOG) as tables:
        put(tables, 1000)
        # Cutting it could end this process: SQLite has it mapped.
        zero_after(Path(f"{tables.database.path}-shm"), 200)
        put(tables, 1001)


def open_beside_a_process(folder: Path) -> None:
    path = make_closed(folder)
    with open_tables(path):
        os.replace(shutil.copy(path, folder / "copy"), path)
        refuse_lost_files(str(path))


def write_after_truncation(folder: Path) -> None:
    with open_tables(make_closed(folder), tuning=KEEP_LOG) as tables:
        put(tables, 1000)
        os.truncate(tables.database.path, os.path.getsize(tables.database.path) // 2)
        put(tables, 1000)


def write_after_overwriting(folder: Path) -> None:
    with open_tables(make_closed(folder), tuning=KEEP_LOG) as tables:
        put(tables, 1000)
        path = Path(tables.database.path)
        path.write_bytes(bytes(path.stat().st_size))
        put(tables, 1000)


def open_with_damaged_record(folder: Path) -> None:
    path = make_killed(folder)
    flip(Path(get_marker_path(path)), 60, 100)
    open_tables(path)


def open_with_overwritten_marker(folder: Path) -> None:
    path = make_closed(folder)
    Path(get_marker_path(path)).write_bytes(b"something else")
    open_tables(path)


def open_with_damaged_structure(folder: Path) -> None:
    path = make_closed(folder)
    os.truncate(path, path.stat().st_size // 2)
    open_tables(path)


def open_with_damaged_header(folder: Path) -> None:
    path = make_closed(folder)
    # The header says how many bytes at the end of each page are reserved for the checksum.
    content = bytearray(path.read_bytes())
    content[20] = 0
    path.write_bytes(content)
    open_tables(path)


# --- data ---------------------------------------------------------------------------------------------------


def get_damaged_item(folder: Path) -> None:
    path = make_closed(folder)
    replace_all(path, b"<007>", b"<008>")
    with open_tables(path) as tables:
        tables.run_blocking(GetItem("Words", {"id": "word-007"}))


def query_damaged_index(folder: Path) -> None:
    path = make_closed(folder)
    connection = open_file(path)
    connection.execute("UPDATE index_1_1 SET ipk = CAST('blue' AS BLOB) WHERE pk = CAST('word-006' AS BLOB)")
    connection.close()
    with open_tables(path, tuning=KEEP_LOG) as tables:
        put(
            tables, 1
        )  # Rows are compared with their items while there is a log, in which pages are not verified.
        tables.run_blocking(Query("Words", (KeyTest("colour", "=", ("blue",)),), "by-colour"))


def flip_page_of(path: Path, name: str) -> None:
    """Change a bit at the end of the first page of a table or index of the file."""
    connection = open_file(path)
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).get
    connection.close()
    flip(path, root * 8192 - 20)


def scan_damaged_keys(folder: Path) -> None:
    path = make_closed(folder)
    flip_page_of(path, "items_1_key")
    with open_tables(path) as tables:
        tables.run_blocking(Scan("Words"))


def read_damaged_catalog(folder: Path) -> None:
    path = make_closed(folder)
    flip_page_of(path, "tables")
    with open_tables(path) as tables:
        tables.run_blocking(Scan("Words"))


def receive_damaged_message(folder: Path) -> None:
    path = folder / "queues.db"
    with open_queues(path) as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name="jobs")))
        queues.run_blocking(SendMessages("jobs", (OutgoingMessage(body="job 1"),)))
    replace_all(path, b"job 1", b"job 2")
    with open_queues(path) as queues:
        queues.run_blocking(ReceiveMessages("jobs"))


# --- objects and keys ---------------------------------------------------------------------------------------


def make_objects(folder: Path) -> LocalObjects:
    objects = open_local_objects(folder / "objects", open_file_cipher(folder / "keys.json"))
    asyncio.run(objects.run(CreateBucket(BucketDefinition(name="files"))))
    asyncio.run(objects.run(PutObject(bucket="files", key="one", body=b"one" * 100)))
    return objects


def get_object(folder: Path, change: Callable[[], object]) -> None:
    objects = make_objects(folder)
    change()
    asyncio.run(objects.run(GetObject("files", "one")))


def get_damaged_object(folder: Path) -> None:
    get_object(folder, lambda: flip(folder / "objects" / "files" / "objects" / "one@", 400))


def list_damaged_bucket(folder: Path) -> None:
    objects = make_objects(folder)
    replace_all(folder / "objects" / "files" / "bucket.json", b'"holds":false', b'"holds":true ')
    asyncio.run(objects.run(PutObject(bucket="files", key="two", body=b"two")))


def change_key(folder: Path) -> None:
    path = folder / "keys.json"
    key = next(iter(FileCipher(path)._load_keys().keys.values()))
    changed = ("A" if key[0] != "A" else "B") + key[1:]
    replace_all(path, key.encode(), changed.encode())


def use_changed_key(folder: Path) -> None:
    get_object(folder, lambda: change_key(folder))


def use_damaged_key_file(folder: Path) -> None:
    get_object(folder, lambda: (folder / "keys.json").write_bytes(b"{"))


def use_other_key_file(folder: Path) -> None:
    def replace() -> None:
        open_file_cipher(folder / "other.json")
        os.replace(folder / "other.json", folder / "keys.json")

    get_object(folder, replace)


def use_removed_key_file(folder: Path) -> None:
    get_object(folder, (folder / "keys.json").unlink)


CASES: Final[tuple[Case, ...]] = (
    open_emptied,
    open_log_without_database,
    open_without_log,
    open_with_cut_log,
    open_with_older_log,
    open_with_damaged_log,
    open_older_copy,
    open_other_store,
    write_after_removal,
    write_after_index_damage,
    open_beside_a_process,
    write_after_truncation,
    write_after_overwriting,
    open_with_damaged_record,
    open_with_overwritten_marker,
    open_with_damaged_structure,
    open_with_damaged_header,
    get_damaged_item,
    query_damaged_index,
    scan_damaged_keys,
    read_damaged_catalog,
    receive_damaged_message,
    get_damaged_object,
    list_damaged_bucket,
    use_changed_key,
    use_damaged_key_file,
    use_other_key_file,
    use_removed_key_file,
)


@pytest.mark.parametrize(("message", "case"), list(zip(MESSAGES, CASES, strict=True)))
def test_message_is_as_the_page_says(message: str, case: Case, tmp_path: Path) -> None:
    with pytest.raises(HoldfastError) as refused:
        case(tmp_path)

    pattern = ".*".join(re.escape(part) for part in message.split("…"))
    assert re.match(pattern, refused.value.message), refused.value.message
