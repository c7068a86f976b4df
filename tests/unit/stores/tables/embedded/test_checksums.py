"""Bit rot in a tables file: it is detected on read, named, and the rest is served."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random

import apsw
import pytest

from holdfast.core.errors import DataDamaged, HoldfastError, StoreFileError
from holdfast.core.progress import ignore_progress
from holdfast.core.store_marker import get_marker_path
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import (
    BatchGetItem,
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeysAndAttributes,
    KeySchema,
    PutItem,
    Query,
    Scan,
    TableDefinition,
    TransactGet,
    TransactGetItems,
)
from holdfast.operations.values import Item, Value
from holdfast.stores.sqlite import Tuning
from holdfast.stores.sqlite.checksums import has_checksums, register_checksum_vfs
from holdfast.stores.sqlite.committer import GroupCommitter
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.storage.file_copy import copy_tables
from holdfast.stores.tables.embedded.storage.verification import verify_tables

ITEMS = 200
FLIPS = 2_000 if os.environ.get("HOLDFAST_SOAK") == "1" else 100
VICTIM = 120
DEFINITION = TableDefinition(
    "Rows",
    (KeyAttribute("pk", "S"), KeyAttribute("sk", "N"), KeyAttribute("colour", "S")),
    KeySchema("pk", "sk"),
    global_indexes=(IndexDefinition("by-colour", KeySchema("colour", "sk"), IndexProjection()),),
)

MANY_INDEXES = TableDefinition(
    "Rows",
    (*DEFINITION.attributes, KeyAttribute("group", "B")),
    KeySchema("pk", "sk"),
    global_indexes=(
        *DEFINITION.global_indexes,
        IndexDefinition("keys-by-sk", KeySchema("sk"), IndexProjection("KEYS_ONLY")),
        IndexDefinition("by-group", KeySchema("group", "colour"), IndexProjection("INCLUDE", ("text",))),
    ),
)
# The partition key of each index, and one of its values.
KEYS_OF_INDEXES: dict[str | None, tuple[str, Value]] = {
    None: ("pk", "one"),
    "by-colour": ("colour", "red"),
    "keys-by-sk": ("sk", 7),
    "by-group": ("group", b"g"),
}
# In the header of the file: the bytes at the end of each page that SQLite does not use.
RESERVED_BYTES_AT = 20


def build_item(number: int) -> Item:
    return {"pk": "one", "sk": number, "colour": "red", "text": f"<{number:05d}>" * 40}


EXPECTED = [build_item(number) for number in range(ITEMS)]


@pytest.fixture(scope="module")
def sound_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the path of a closed file with a table and an index."""
    path = tmp_path_factory.mktemp("sound") / "tables.db"
    with open_tables(path) as tables:
        tables.run_blocking(CreateTable(DEFINITION))
        for item in EXPECTED:
            tables.run_blocking(PutItem("Rows", item))
    return path


@pytest.fixture
def path(sound_file: Path, tmp_path: Path) -> Path:
    """Return the path of a copy of the file, to damage."""
    shutil.copy(sound_file, tmp_path / "tables.db")
    return tmp_path / "tables.db"


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Change one bit of the closed file."""
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


def damage_item(path: Path, number: int) -> None:
    """Change one bit in the text of a stored item."""
    flip(path, path.read_bytes().index(f"<{number:05d}>".encode()) + 3)


def get(tables: EmbeddedTables, number: int) -> Item | None:
    return tables.run_blocking(GetItem("Rows", {"pk": "one", "sk": number})).item


def query(tables: EmbeddedTables, low: int, high: int, index: str | None = None) -> list[Item] | None:
    partition = KeyTest("pk", "=", ("one",)) if index is None else KeyTest("colour", "=", ("red",))
    condition = (partition, KeyTest("sk", "between", (low, high)))
    return tables.run_blocking(Query("Rows", condition, index)).items


def test_damaged_item_is_named_and_all_others_are_served(path: Path) -> None:
    damage_item(path, VICTIM)
    with open_tables(path) as tables:
        with pytest.raises(DataDamaged, match="'sk': 120.* of Rows is damaged") as raised:
            get(tables, VICTIM)
        assert (raised.value.table, raised.value.key) == ("Rows", {"pk": "one", "sk": VICTIM})
        assert [get(tables, number) for number in range(ITEMS) if number != VICTIM] == [
            item for item in EXPECTED if item["sk"] != VICTIM
        ]


@pytest.mark.parametrize("index", [None, "by-colour"])
def test_query_next_to_a_damaged_item_is_served_and_one_over_it_names_it(
    path: Path, index: str | None
) -> None:
    damage_item(path, VICTIM)
    with open_tables(path) as tables:
        assert query(tables, 0, VICTIM - 1, index) == EXPECTED[:VICTIM]
        assert query(tables, VICTIM + 1, ITEMS, index) == EXPECTED[VICTIM + 1 :]
        with pytest.raises(DataDamaged) as raised:
            query(tables, 0, ITEMS, index)
        assert raised.value.key == {"pk": "one", "sk": VICTIM}


def test_every_kind_of_read_refuses_a_damaged_item(path: Path) -> None:
    damage_item(path, VICTIM)
    key: Item = {"pk": "one", "sk": VICTIM}
    with open_tables(path) as tables:
        for operation in (
            Scan("Rows"),
            Scan("Rows", "by-colour", segment=0, segments=1),
            BatchGetItem((KeysAndAttributes("Rows", (key,)),)),
            TransactGetItems((TransactGet("Rows", key),)),
            PutItem("Rows", build_item(VICTIM)),
        ):
            with pytest.raises(DataDamaged) as raised:
                tables.run_blocking(operation)
            assert raised.value.key == key


def test_writers_of_sound_items_are_not_failed_by_one_of_a_damaged_item(path: Path) -> None:
    damage_item(path, VICTIM)
    with open_tables(path) as tables:
        futures = [
            tables._submit(PutItem("Rows", build_item(number))) for number in (ITEMS, VICTIM, ITEMS + 1)
        ]
        outcomes = []
        for future in futures:
            try:
                future.result()
                outcomes.append("written")
            except DataDamaged:
                outcomes.append("damaged")
        assert outcomes == ["written", "damaged", "written"]
        assert get(tables, ITEMS + 1) == build_item(ITEMS + 1)


def test_damaged_key_does_not_make_an_item_absent(path: Path) -> None:
    """The key of the last item stands in the index of keys, behind all whole items."""
    with open_tables(path) as tables:
        tables.run_blocking(PutItem("Rows", {"pk": "findable-key", "sk": 1, "colour": "blue"}))
    content = path.read_bytes()
    places = [place for place in range(len(content)) if content.startswith(b"findable-key", place)]
    assert len(places) >= 3, "the item, the index of keys and the index by colour"
    for place in places:
        damaged = path.with_name(f"at-{place}.db")
        damaged.write_bytes(content)
        flip(damaged, place)
        with open_tables(damaged) as tables:
            try:
                item = tables.run_blocking(GetItem("Rows", {"pk": "findable-key", "sk": 1})).item
            except DataDamaged:
                continue
            assert item == {"pk": "findable-key", "sk": 1, "colour": "blue"}


def test_no_flipped_bit_is_served_as_truth(sound_file: Path, tmp_path: Path) -> None:
    """Wherever it is, each read returns what was written or an error."""
    seed = int.from_bytes(os.urandom(4), "big")
    random = Random(seed)
    original = sound_file.read_bytes()
    for number in range(FLIPS):
        offset, bit = random.randrange(len(original)), random.randrange(8)
        damaged = tmp_path / f"{number}.db"
        damaged.write_bytes(original)
        flip(damaged, offset, bit)
        assert _find_wrong_answers(damaged) == [], f"seed {seed}, bit {bit} at {offset}"


def _find_wrong_answers(path: Path) -> list[object]:
    """Return what the file serves other than what was written."""
    wrong: list[object] = []
    try:
        with open_tables(path) as tables:
            for number in range(0, ITEMS, 7):
                try:
                    found = get(tables, number)
                except HoldfastError:
                    continue
                wrong += [] if found == EXPECTED[number] else [found]
            for index in (None, "by-colour"):
                try:
                    items = query(tables, 0, ITEMS, index)
                except HoldfastError:
                    continue
                wrong += [] if items == EXPECTED else [items]
    except StoreFileError:
        pass
    return wrong


def test_older_file_gets_its_checksums_when_it_is_opened(tmp_path: Path) -> None:
    """Made older: without the checksums of pages and rows."""
    path = tmp_path / "tables.db"
    with open_tables(path, tuning=Tuning(vfs="unix")) as tables:
        tables.run_blocking(CreateTable(DEFINITION))
        for item in EXPECTED:
            tables.run_blocking(PutItem("Rows", item))
    connection = apsw.Connection(str(path), vfs="unix")
    connection.execute(
        "ALTER TABLE items_1 DROP COLUMN sum; ALTER TABLE changes_1 DROP COLUMN sum;"
        "DROP TABLE store_identity; PRAGMA user_version = 1"
    )
    connection.close()
    Path(get_marker_path(path)).unlink()
    with open_tables(path) as tables:
        assert tables.database.has_checksums
        assert query(tables, 0, ITEMS) == EXPECTED
    damage_item(path, VICTIM)
    with open_tables(path) as tables:
        with pytest.raises(DataDamaged):
            get(tables, VICTIM)
        with pytest.raises(DataDamaged):
            query(tables, 0, ITEMS)
        assert get(tables, VICTIM + 1) == EXPECTED[VICTIM + 1]


def test_copy_of_a_live_file_has_valid_checksums(path: Path, tmp_path: Path) -> None:
    with open_tables(path) as tables:
        tables.run_blocking(PutItem("Rows", build_item(ITEMS)))
        assert copy_tables(path, tmp_path / "copy.db")
    connection = apsw.Connection(str(tmp_path / "copy.db"), vfs=register_checksum_vfs())
    assert connection.pragma("integrity_check") == "ok"
    assert has_checksums(connection)
    connection.close()


def change_log(tables: EmbeddedTables, text: bytes, *, in_items: bool) -> None:
    """Change one bit of this text in all pages of the log, of items or of an index."""
    log = Path(f"{tables.database.path}-wal")
    frame_bytes, content = 24 + 8192, log.read_bytes()
    for start in range(32, len(content), frame_bytes):
        frame = content[start : start + frame_bytes]
        if text in frame and (b"<000" in frame) == in_items:
            with log.open("r+b", buffering=0) as file:
                file.seek(start + frame.index(text) + 1)
                file.write(bytes([text[1] ^ 1]))


@pytest.fixture
def logged_tables(tmp_path: Path) -> Iterator[EmbeddedTables]:
    """Yield tables whose last writes are all in the log: one item is yellow, the others are red."""
    tuning = Tuning(log_quiet_s=1000, log_s_max=1000, checkpoint_pages=100_000)
    with open_tables(tmp_path / "tables.db", tuning=tuning) as tables:
        tables.run_blocking(CreateTable(DEFINITION))
        for item in EXPECTED[:20]:
            tables.run_blocking(PutItem("Rows", item))
        tables.run_blocking(PutItem("Rows", EXPECTED[20] | {"colour": "yellow"}))
        yield tables


@pytest.mark.parametrize("index", [None, "by-colour"])
def test_item_that_was_changed_in_the_log_is_not_served(
    logged_tables: EmbeddedTables, index: str | None
) -> None:
    change_log(logged_tables, b"<00007>", in_items=True)
    for segments in (None, 1):
        segment = None if segments is None else 0
        with pytest.raises(DataDamaged) as raised:
            logged_tables.run_blocking(Scan("Rows", index, segment=segment, segments=segments))
        assert raised.value.key == {"pk": "one", "sk": 7}
    with pytest.raises(DataDamaged):
        query(logged_tables, 6, 8, index)
    assert query(logged_tables, 8, 12, index) == EXPECTED[8:13]


def test_page_that_ends_before_a_damaged_item_is_served(logged_tables: EmbeddedTables) -> None:
    """A page ends with its limit or at 1 MB. Rows are read ahead of that."""
    for number in range(6):
        item: Item = {"pk": "large", "sk": number, "text": "x" * 300_000, "end": f"<{number:05d}>"}
        logged_tables.run_blocking(PutItem("Rows", item))
    change_log(logged_tables, b"<00005>", in_items=True)
    condition = (KeyTest("pk", "=", ("large",)),)
    first = logged_tables.run_blocking(Query("Rows", condition))
    assert [item["sk"] for item in first.items or ()] == [0, 1, 2, 3]
    limited = logged_tables.run_blocking(Query("Rows", condition, start_key=first.last_key, limit=1))
    assert [item["sk"] for item in limited.items or ()] == [4]
    with pytest.raises(DataDamaged) as raised:
        logged_tables.run_blocking(Query("Rows", condition, start_key=first.last_key))
    assert raised.value.key == {"pk": "large", "sk": 5}


def test_pages_are_trusted_only_while_the_log_is_empty(path: Path) -> None:
    """Pages of the log have no checksum that SQLite compares: their rows are compared with theirs."""
    with open_tables(path, tuning=Tuning(log_quiet_s=1000)) as tables:
        database = tables.database
        with database.snapshot() as snapshot:
            snapshot.execute("SELECT count(*) FROM items_1").fetchall()
            assert database.has_only_verified_pages(snapshot)
        tables.run_blocking(PutItem("Rows", build_item(ITEMS)))
        with database.snapshot() as snapshot:
            snapshot.execute("SELECT count(*) FROM items_1").fetchall()
            assert not database.has_only_verified_pages(snapshot)
            assert not tables.compact(rewrite=False), "a log that a snapshot needs stays as it is"
            assert not database.has_only_verified_pages(snapshot)
        assert tables.compact(rewrite=False)
        with database.snapshot() as snapshot:
            snapshot.execute("SELECT count(*) FROM items_1").fetchall()
            assert database.has_only_verified_pages(snapshot)
    assert not database.has_only_verified_pages(apsw.Connection(":memory:"))


def test_pages_are_not_trusted_once_the_header_says_that_they_have_no_checksums(path: Path) -> None:
    with open_tables(path, tuning=Tuning(log_quiet_s=1000)) as tables:
        with path.open("r+b", buffering=0) as file:
            file.seek(RESERVED_BYTES_AT)
            file.write(b"\0")
        with tables.database.snapshot() as snapshot:
            snapshot.execute("SELECT count(*) FROM items_1").fetchall()
            assert not has_checksums(snapshot)
            assert not tables.database.has_only_verified_pages(snapshot)


@pytest.mark.parametrize("direction", [True, False], ids=["forward", "backward"])
@pytest.mark.parametrize("index", [None, "by-colour", "keys-by-sk", "by-group"])
def test_trusted_and_verified_pages_give_the_same_answers(
    tmp_path: Path, index: str | None, direction: bool
) -> None:
    with open_tables(tmp_path / "tables.db", tuning=Tuning(log_quiet_s=1000)) as tables:
        tables.run_blocking(CreateTable(MANY_INDEXES))
        for number in range(150):
            group: Item = {"group": b"g"} if number % 3 else {}
            tables.run_blocking(PutItem("Rows", build_item(number) | group))
        attribute, value = KEYS_OF_INDEXES[index]
        operations: list[Query | Scan] = [
            Query(
                "Rows",
                (KeyTest(attribute, "=", (value,)),),
                index,
                forward=direction,
                limit=limit,
                capacity="INDEXES",
            )
            for limit in (None, 1, 70)
        ]
        operations += [Scan("Rows", index, limit=limit, capacity="INDEXES") for limit in (None, 1, 70)]
        operations += [Scan("Rows", index, segment=1, segments=3)]
        verified = [tables.run_blocking(operation) for operation in operations]
        assert tables.compact(rewrite=False)
        assert [tables.run_blocking(operation) for operation in operations] == verified
        assert verified[0].count == {None: 150, "by-colour": 150, "keys-by-sk": 1, "by-group": 100}[index]


def test_index_row_that_was_changed_in_the_log_is_reported(logged_tables: EmbeddedTables) -> None:
    change_log(logged_tables, b"yellow", in_items=False)
    for operation in (
        Query("Rows", (KeyTest("colour", "=", ("ydllow",)),), "by-colour"),
        Scan("Rows", "by-colour", segment=0, segments=1),
    ):
        with pytest.raises(DataDamaged, match="index Rows.by-colour is damaged"):
            logged_tables.run_blocking(operation)
    assert get(logged_tables, 20) == EXPECTED[20] | {"colour": "yellow"}


@pytest.mark.parametrize("in_items", [True, False], ids=["items", "index"])
def test_checkpoint_does_not_move_a_damaged_log(logged_tables: EmbeddedTables, in_items: bool) -> None:
    """In the database, the damaged page would have a valid checksum."""
    database = logged_tables.database
    path = Path(database.path)
    change_log(logged_tables, b"yellow", in_items=in_items)
    before = path.read_bytes()
    assert isinstance(database.committer, GroupCommitter)
    database.committer._checkpoints._due_at_pages = 1
    logged_tables.run_blocking(PutItem("Rows", EXPECTED[30]))
    for _ in range(3):
        # The checkpoint follows the write above, and comes before the next one.
        with pytest.raises(StoreFileError, match="cut, replaced or damaged"):
            logged_tables.run_blocking(PutItem("Rows", EXPECTED[31]))
    assert path.read_bytes() == before


def store_text(path: Path, number: int, value: str) -> None:
    """Make an item a value of another type, as a changed bit in front of it can, on a valid page."""
    connection = apsw.Connection(str(path), vfs=register_checksum_vfs())
    connection.pragma("writable_schema", True)
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, 'STRICT', '') WHERE name = 'items_1'")
    connection.close()
    connection = apsw.Connection(str(path), vfs=register_checksum_vfs())
    connection.execute(f"UPDATE items_1 SET item = {value} WHERE id = ?", (number + 1,))
    connection.close()


@pytest.mark.parametrize("has_damaged_page", [False, True])
@pytest.mark.parametrize("value", ["CAST(x'84ff' AS TEXT)", "7"])
def test_item_that_became_a_value_of_another_type_is_named(
    path: Path, value: str, *, has_damaged_page: bool
) -> None:
    store_text(path, VICTIM, value)
    if has_damaged_page:
        damage_item(path, VICTIM + 1)
    with open_tables(path) as tables:
        for operation in (
            GetItem("Rows", {"pk": "one", "sk": VICTIM}),
            Query("Rows", (KeyTest("pk", "=", ("one",)), KeyTest("sk", "<=", (VICTIM,)))),
            Scan("Rows", "by-colour"),
            PutItem("Rows", build_item(VICTIM)),
        ):
            with pytest.raises(DataDamaged) as raised:
                tables.run_blocking(operation)
            assert raised.value.key == {"pk": "one", "sk": VICTIM}
        assert query(tables, 0, VICTIM - 1) == EXPECTED[:VICTIM]
    problems = verify_tables(str(path), ignore_progress)
    assert "the item {'pk': 'one', 'sk': 120} of Rows is damaged" in problems


def test_damaged_catalog_is_reported_as_damage(path: Path) -> None:
    """SQLite ends the transaction in which it meets the page; the error is not about that."""
    connection = apsw.Connection(str(path), vfs=register_checksum_vfs())
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'tables'").get
    connection.close()
    flip(path, root * 8192 - 20)
    with open_tables(path) as tables:
        for operation in (
            GetItem("Rows", {"pk": "one", "sk": 1}),
            Scan("Rows"),
            PutItem("Rows", EXPECTED[1]),
        ):
            with pytest.raises(DataDamaged, match="does not match its checksum"):
                tables.run_blocking(operation)


def test_writer_does_not_build_on_an_item_changed_in_the_log(logged_tables: EmbeddedTables) -> None:
    """In the memory of the process that wrote it, the item is still right."""
    with open_tables(logged_tables.database.path) as other:
        change_log(logged_tables, b"<00007>", in_items=True)
        with pytest.raises(DataDamaged) as raised:
            other.run_blocking(PutItem("Rows", build_item(7) | {"colour": "blue"}))
    assert raised.value.key == {"pk": "one", "sk": 7}


def find_long_pages(path: Path, text: bytes) -> list[int]:
    """Return the offsets of the pages that hold nothing but the middle or the end of a long item."""
    content = path.read_bytes()
    pages = range(0, len(content), 8192)
    return [at for at in pages if content[at : at + 8192].count(text) > 900]


def test_page_of_zeros_in_a_long_item_is_noticed(path: Path) -> None:
    """Its checksum is valid, and it is in no tree whose structure it would break."""
    long: Item = {"pk": "one", "sk": ITEMS, "colour": "red", "text": "<long!>" * 6000}
    with open_tables(path) as tables:
        tables.run_blocking(PutItem("Rows", long))
    content = path.read_bytes()
    offsets = find_long_pages(path, b"<long!>")
    assert len(offsets) >= 4
    for offset in offsets:
        damaged = path.with_name(f"at-{offset}.db")
        damaged.write_bytes(content[:offset] + bytes(8192) + content[offset + 8192 :])
        with open_tables(damaged) as tables:
            for operation in (
                GetItem("Rows", {"pk": "one", "sk": ITEMS}),
                Query("Rows", (KeyTest("pk", "=", ("one",)), KeyTest("sk", ">=", (ITEMS - 5,)))),
                Scan("Rows", "by-colour"),
            ):
                with pytest.raises(DataDamaged) as raised:
                    tables.run_blocking(operation)
                assert raised.value.key == {"pk": "one", "sk": ITEMS}
            with pytest.raises(StoreFileError):
                tables.run_blocking(PutItem("Rows", long))
            tables.run_blocking(PutItem("Rows", EXPECTED[0]))
            assert query(tables, 0, ITEMS - 1) == EXPECTED


def test_key_that_is_no_number_any_more_is_damage_without_a_name(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with open_tables(path, tuning=Tuning(log_quiet_s=1000)) as tables:
        tables.run_blocking(CreateTable(DEFINITION))
        for number in range(3):
            tables.run_blocking(PutItem("Rows", build_item(number)))
    connection = apsw.Connection(str(path), vfs=register_checksum_vfs())
    connection.execute("UPDATE items_1 SET sk = x'ff00ff' WHERE id = 2")
    connection.close()
    with open_tables(path, tuning=Tuning(log_quiet_s=1000)) as tables:
        # The log is not empty after a write, so each row is compared with its checksum.
        tables.run_blocking(PutItem("Rows", build_item(7)))
        with pytest.raises(DataDamaged, match="Rows"):
            tables.run_blocking(Scan("Rows"))
