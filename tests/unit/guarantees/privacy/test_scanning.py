"""`scan_files` on files and real database files: spellings, chunk borders, free pages, logs, split texts."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.guarantees import Finding, scan_files
from holdfast.guarantees.privacy.scanning import files
from holdfast.guarantees.privacy.scanning.live_files import FileContent, open_live
from holdfast.operations import tables as ops
from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import open_tables
from tests.cases import all_cases

SECRET = "my parcel for Zoë never came"
TABLE = ops.TableDefinition("Notes", (ops.KeyAttribute("id", "S"),), ops.KeySchema("id"))


def scan(folder: Path, *needles: str, kinds: Sequence[str] = ()) -> list[Finding]:
    """Scan the folder for the needles and kinds."""
    return scan_files([folder], needles=needles, kinds=kinds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("spelling", "raw"),
    [
        ("utf-8", SECRET.encode()),
        ("utf-16-le", SECRET.encode("utf-16-le")),
        ("utf-16-be", SECRET.encode("utf-16-be")),
        ("json", json.dumps(SECRET).encode()),
        ("json", json.dumps(SECRET).replace("u00eb", "u00EB").encode()),
        ("percent", quote(SECRET).encode()),
        ("percent", quote(SECRET).replace("%C3%AB", "%c3%ab").encode()),
        ("utf-8", "my parcel for Zoe\u0308 never came".encode()),
        *(("base64", base64.b64encode(b"x" * before + SECRET.encode() + b"!")) for before in range(3)),
        *(("base64", base64.urlsafe_b64encode(b"?>" * before + SECRET.encode())) for before in range(3)),
    ],
)
def test_finds_a_text_in_every_spelling(tmp_path: Path, spelling: str, raw: bytes) -> None:
    (tmp_path / "log").write_bytes(b"\xff\x00before" + raw + b"after")

    (found, *_) = scan(tmp_path, "something else that is not there", SECRET)

    assert (found.kind, found.spelling, found.file) == ("needle", spelling, str(tmp_path / "log"))
    assert "parcel" not in found.sample


@pytest.mark.parametrize("needle", ["Zoë", "short", "just seven", "just over fifteen bytes", "long " * 100])
def test_finds_a_text_at_every_offset_around_a_chunk_border(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needle: str
) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 2048)
    raw = needle.encode()
    for at in [*range(16), *range(2048 - len(raw) - 9, 2060), 5000, 8192 - len(raw)]:
        (tmp_path / "file").write_bytes(b"." * at + raw + b"." * (8192 - at - len(raw)))

        assert [found.offset for found in scan(tmp_path, needle)] == [at]


def test_finds_the_one_of_many_needles_that_is_present(tmp_path: Path) -> None:
    texts = [f"message number {number} of a customer" for number in range(2000)]
    (tmp_path / "file").write_bytes(b"\0" * 1000 + texts[1234].encode())

    (found,) = scan(tmp_path, *texts)

    assert (found.offset, found.sample) == (1000, "needle 1235 (33 characters)")


@pytest.mark.parametrize(
    ("kind", "text", "sample"),
    [
        ("email", "joe.bloggs@example.com", "***@***"),
        ("email", "joe%40example.com", "***@***"),
        ("email", "joe\\u0040example.com", "***@***"),
        ("phone", "+44 20 7946 0958", "***-***-0958"),
        ("phone", "+442079460958", "***-***-0958"),
        ("phone", "(415) 555-0132", "***-***-0132"),
        ("phone", "415-555-0132", "***-***-0132"),
        ("tracking", "1Z999AA10123456784", "***"),
        ("tracking", "RR123456789CN", "***"),
        ("tracking", "9400100000000000000000", "***"),
    ],
)
@pytest.mark.parametrize("encoding", ["ascii", "utf-16-le", "utf-16-be"])
def test_finds_personal_data_by_its_format(
    tmp_path: Path, kind: str, text: str, sample: str, encoding: str
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"\x00\x01 \xfe" + f" {text} ".encode(encoding) + b"\xff\x00")

    (found,) = scan_files([tmp_path])

    assert (found.kind, found.sample) == (kind, sample)


def test_finds_nothing_in_times_ids_digests_and_noise(tmp_path: Path) -> None:
    lines = [
        "2026-11-15T12:30:45.123456Z +00:00 1700000000 1700000000123",
        "550e8400-e29b-41d4-a716-446655440000 01HF7YAT00000000000000000A",
        "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
        "***@*** ***-***-1234 ***1234 10.0.0.1 v1.2.3",
    ]
    (tmp_path / "log").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "cipher").write_bytes(Random(7).randbytes(4_000_000))

    assert scan_files([tmp_path]) == []


def test_ignores_allowed_texts(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(
        "support@shop.example, joe@home.example, ann@shop.example", encoding="utf-8"
    )

    (found,) = scan_files([tmp_path], allow=["*@shop.example"])

    assert found.offset == 22


def test_reports_progress(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"." * 3_000_000)
    (tmp_path / "b").write_bytes(b"." * 10)
    calls: list[tuple[str, int, int]] = []

    scan_files([tmp_path], progress=lambda what, done, total: calls.append((what, done, total)))

    assert calls[0] == ("a", 0, 3_000_010) and calls[-1] == ("b", 3_000_010, 3_000_010)
    assert [done for _, done, _ in calls] == sorted(done for _, done, _ in calls)


def test_rejects_an_empty_needle_and_a_missing_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="everywhere"):
        scan_files([tmp_path], needles=[""])
    with pytest.raises(NotFound, match="nothing to scan"):
        scan_files([tmp_path / "none"])


def write_and_delete(path: Path, text: str, *, secure_delete: bool) -> None:
    """Write an item with the text into a new database, then others, then delete it."""
    with open_tables(path, tuning=Tuning(secure_delete=secure_delete)) as tables:
        tables.run_blocking(ops.CreateTable(TABLE))
        tables.run_blocking(ops.PutItem("Notes", {"id": "planted", "text": text}))
        for number in range(20):
            tables.run_blocking(ops.PutItem("Notes", {"id": f"n{number}", "text": "nothing of note " * 20}))
        tables.run_blocking(ops.DeleteItem("Notes", {"id": "planted"}))


@pytest.mark.parametrize("text", [SECRET, "." * 30_000 + SECRET], ids=["in a page", "over several pages"])
def test_finds_a_deleted_item_in_the_free_pages_of_the_file(tmp_path: Path, text: str) -> None:
    write_and_delete(tmp_path / "tables.db", text, secure_delete=False)

    assert scan(tmp_path, SECRET)


@pytest.mark.parametrize("text", [SECRET, "." * 30_000 + SECRET], ids=["in a page", "over several pages"])
def test_finds_no_deleted_item_with_secure_delete(tmp_path: Path, text: str) -> None:
    write_and_delete(tmp_path / "tables.db", text, secure_delete=True)

    assert scan(tmp_path, SECRET) == []


def test_finds_an_item_in_the_log_before_it_is_in_the_file(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        tables.run_blocking(ops.CreateTable(TABLE))
        tables.run_blocking(ops.PutItem("Notes", {"id": "planted", "text": SECRET}))

        found = {Path(each.file).name for each in scan(tmp_path, SECRET)}

    assert found == {"tables.db-wal"}


@all_cases("before", range(7900, 8200, 7))
def test_finds_a_text_that_the_database_split_in_two(tmp_path: Path, before: int) -> None:
    secret = "the text that a page cuts in two"
    folder = tmp_path / str(before)
    folder.mkdir()
    with open_tables(folder / "tables.db", tuning=Tuning(secure_delete=True)) as tables:
        tables.run_blocking(ops.CreateTable(TABLE))
        tables.run_blocking(ops.PutItem("Notes", {"id": "x", "text": "." * before + secret + "." * 9000}))

    assert len(scan(folder, secret)) == 1


def test_scans_a_file_that_is_truncated_meanwhile_as_far_as_it_goes(tmp_path: Path) -> None:
    """`FileContent` reads truncated parts as empty instead of crashing."""
    log = tmp_path / "tables.db-wal"
    log.write_bytes(b"\0" * 3_000_000)
    with open_live(log) as file:
        content = FileContent(file)
        os.truncate(log, 0)
        assert content.size == 3_000_000
        assert content.read_at(1_000_000, 10) == b""
        assert not content.contains(b"needle")


def test_does_not_release_the_locks_of_an_open_database(tmp_path: Path) -> None:
    database = tmp_path / "tables.db"
    database.write_bytes(b"SQLite format 3\0" + b"\0" * 4096)
    descriptor = os.open(database, os.O_RDWR)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
        scan_files([tmp_path], needles=["nothing like this"])
        held = subprocess.run(
            [sys.executable, "-c", LOCK_IT, str(database)], capture_output=True, text=True, check=False
        )
        assert held.stdout.strip() == "held"
    finally:
        os.close(descriptor)


LOCK_IT = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR)
try:
    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("free")
except OSError:
    print("held")
"""
