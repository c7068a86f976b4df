"""The local objects engine in a folder: encryption, damage, durability, races and the lifecycle sweep."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.core import disk
from holdfast.core.errors import (
    AlreadyExists,
    NotFound,
    ObjectDamaged,
    ObjectHeld,
    SettingsError,
    StoreFileError,
    StoreFull,
)
from holdfast.operations.objects import (
    BucketDefinition,
    CreateBucket,
    DeleteObject,
    DescribeBucket,
    GetObject,
    HeadObject,
    LifecycleRule,
    ListObjects,
    Operation,
    PutObject,
    SetLegalHold,
    SweepBucket,
)
from holdfast.security.ciphers import FileCipher, open_file_cipher
from holdfast.stores.objects.local import LocalObjects, file_storage, open_local_objects
from holdfast.stores.objects.local.bucket_file import decode_definition, encode_definition
from holdfast.stores.objects.local.inspection import inspect_buckets
from holdfast.stores.objects.local.paths import (
    DEFINITION_FILE,
    LOCK_FILE,
    OBJECTS_FOLDER,
    STAGING_FOLDER,
    parse_key,
    to_folders,
    to_former_path,
    to_path,
)
from holdfast.stores.objects.local.verification import verify_objects

R = TypeVar("R")

BUCKET = "archive"
DAY_S = 86_400.0
BODY = b"my number is 555 0199"


@dataclass
class FakeClock:
    moment: float = 1_763_200_000.0

    def now(self) -> float:
        return self.moment


class ObjectsFolder:
    """A folder of objects with its keys, its clock and an open engine."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.folder, self.keys = FakeClock(), folder / "objects", folder / "keys.json"
        self.objects = self.open()

    @property
    def cipher(self) -> FileCipher:
        """Return a cipher with the keys as they are in the file now."""
        return open_file_cipher(self.keys)

    def open(self) -> LocalObjects:
        """Open another engine on the folder, as another process would."""
        return open_local_objects(self.folder, self.cipher, clock=self.clock)

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self._run(operation))

    async def _run(self, operation: Operation[R]) -> R:
        return await self.objects.run(operation)

    def sweep(self) -> int:
        return self.run(SweepBucket(BUCKET))

    def find_file(self, key: str) -> Path:
        """Return the path of the object's file."""
        return self.folder / to_path(BUCKET, key)

    def list_staged(self) -> list[Path]:
        """Return the temporary files of the bucket."""
        return list((self.folder / BUCKET / STAGING_FOLDER).iterdir())


@pytest.fixture
def objects_folder(tmp_path: Path) -> ObjectsFolder:
    """Create a folder with one bucket that allows holds and expires `replay/` after 30 days."""
    made = ObjectsFolder(tmp_path)
    made.run(
        CreateBucket(
            BucketDefinition(name=BUCKET, lifecycle=(LifecycleRule(prefix="replay/", days=30),), holds=True)
        )
    )
    return made


# --- at rest ------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-44")
def test_no_file_contains_the_plain_body(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY))
    objects_folder.run(PutObject(BUCKET, "a", BODY + b"!"))
    objects_folder.run(SetLegalHold(BUCKET, "a", True))
    files = [each for each in objects_folder.folder.rglob("*") if each.is_file()]
    assert objects_folder.find_file("a") in files
    assert not [each for each in files if BODY in each.read_bytes()]


def test_another_engine_on_the_folder_can_read_the_object(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY, content_type="text/plain", metadata={"k": "v"}))
    info = objects_folder.run(HeadObject(BUCKET, "a"))
    objects_folder.objects = objects_folder.open()
    found = objects_folder.run(GetObject(BUCKET, "a"))
    assert (found.body, found.info) == (BODY, info)
    assert objects_folder.run(DescribeBucket(BUCKET)).holds


def test_an_object_is_put_at_the_time_of_the_clock(objects_folder: ObjectsFolder) -> None:
    assert objects_folder.run(PutObject(BUCKET, "a", BODY)).put_at == objects_folder.clock.moment
    assert objects_folder.run(ListObjects(BUCKET)).objects[0].put_at == objects_folder.clock.moment


def test_objects_stay_readable_when_keys_are_rotated(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY))
    objects_folder.cipher.rotate()
    objects_folder.run(PutObject(BUCKET, "b", BODY))
    assert [objects_folder.run(GetObject(BUCKET, key)).body for key in ("a", "b")] == [BODY, BODY]


def replace(objects_folder: ObjectsFolder, key: str, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of the object's file."""
    objects_folder.find_file(key).write_bytes(change(objects_folder.find_file(key).read_bytes()))


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file[:-1],
        lambda file: file[:40],
        lambda file: b"",
        lambda file: file + b"x",
        lambda file: file.replace(b"text/plain", b"text/xhtml"),
        lambda file: b"not ours" + file,
    ],
    ids=["cut", "cut short", "empty", "longer", "another content type", "another beginning"],
)
def test_a_file_that_was_changed_is_damaged(
    objects_folder: ObjectsFolder, change: Callable[[bytes], bytes]
) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY, content_type="text/plain"))
    replace(objects_folder, "a", change)
    with pytest.raises(ObjectDamaged):
        objects_folder.run(GetObject(BUCKET, "a"))


def test_swapped_file_is_damaged(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(CreateBucket(BucketDefinition(name="another")))
    for bucket, key in ((BUCKET, "a"), (BUCKET, "b"), ("another", "a")):
        objects_folder.run(PutObject(bucket, key, BODY))
    replace(objects_folder, "b", lambda _: objects_folder.find_file("a").read_bytes())
    replace(objects_folder, "a", lambda _: (objects_folder.folder / to_path("another", "a")).read_bytes())
    for key in ("a", "b"):
        with pytest.raises(ObjectDamaged):
            objects_folder.run(GetObject(BUCKET, key))


def test_damaged_object_that_may_be_held_is_kept(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY))
    replace(objects_folder, "a", lambda file: file[:20])
    for operation in (DeleteObject(BUCKET, "a"), PutObject(BUCKET, "a", BODY)):
        with pytest.raises(ObjectDamaged):
            objects_folder.run(operation)
    assert objects_folder.find_file("a").exists()


def test_uncreatable_folder_error_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="setting `objects`"):
        open_local_objects(tmp_path / "file" / "objects", open_file_cipher(tmp_path / "keys.json"))


# --- on the disk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_only", [True, False])
def test_a_body_is_on_the_disk_before_its_name_and_its_name_before_the_answer(
    objects_folder: ObjectsFolder, monkeypatch: pytest.MonkeyPatch, create_only: bool
) -> None:
    synced: list[tuple[str, bool]] = []

    def note(what: str) -> None:
        synced.append((what, objects_folder.find_file("new/a").exists()))

    def sync_body(descriptor: int) -> None:
        disk.sync(descriptor)
        (staged,) = objects_folder.list_staged()
        assert os.path.samestat(os.fstat(descriptor), staged.stat())
        assert staged.stat().st_size > len(BODY)
        note("the staged body")

    def sync_folder(path: str | Path) -> None:
        disk.sync_path(path)
        note(str(Path(path).relative_to(objects_folder.folder)))

    monkeypatch.setattr(file_storage, "sync", sync_body)
    monkeypatch.setattr(file_storage, "sync_path", sync_folder)
    objects_folder.run(PutObject(BUCKET, "new/a", BODY, create_only=create_only))
    body, *folders = synced
    assert body == ("the staged body", False)
    named = f"{BUCKET}/objects"
    assert folders == [(f"{named}/new", True), (named, True), (BUCKET, True), (".", True)][: len(folders)]
    assert len(folders) >= 2
    assert objects_folder.list_staged() == []


def test_a_deletion_is_on_the_disk_before_the_answer(
    objects_folder: ObjectsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY))
    synced: list[Path] = []
    monkeypatch.setattr(file_storage, "sync_path", synced.append)
    objects_folder.run(DeleteObject(BUCKET, "a"))
    assert synced == [objects_folder.find_file("a").parent]


def test_failed_put_leaves_no_files(objects_folder: ObjectsFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_storage, "sync", failing)
    with pytest.raises(StoreFull):
        objects_folder.run(PutObject(BUCKET, "a", BODY))
    monkeypatch.undo()
    assert objects_folder.list_staged() == []
    with pytest.raises(NotFound):
        objects_folder.run(GetObject(BUCKET, "a"))


def test_hold_survives_a_concurrent_overwrite(objects_folder: ObjectsFolder) -> None:
    """Two engines on one folder act as two processes; the hold is set, and the body is the old or the new
    one.
    """
    other = objects_folder.open()
    for round in range(20):
        key, old, new = f"raced/{round}", b"old", b"new"
        objects_folder.run(PutObject(BUCKET, key, old))

        async def both(key: str = key, new: bytes = new) -> tuple[object, object]:
            return await asyncio.gather(
                objects_folder.objects.run(PutObject(BUCKET, key, new)),
                other.run(SetLegalHold(BUCKET, key, True)),
                return_exceptions=True,
            )

        overwritten, _ = asyncio.run(both())
        found = objects_folder.run(GetObject(BUCKET, key))
        assert found.info.held
        assert found.body == (old if isinstance(overwritten, ObjectHeld) else new)


# --- lifecycle ----------------------------------------------------------------------------------------------


def test_sweep_deletes_only_expired_objects(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "replay/old", BODY))
    objects_folder.run(PutObject(BUCKET, "kept/old", BODY))
    objects_folder.clock.moment += 10 * DAY_S
    objects_folder.run(PutObject(BUCKET, "replay/new", BODY))
    assert objects_folder.sweep() == 0
    objects_folder.clock.moment += 20 * DAY_S
    assert objects_folder.sweep() == 1
    assert [each.key for each in objects_folder.run(ListObjects(BUCKET)).objects] == [
        "kept/old",
        "replay/new",
    ]
    assert objects_folder.sweep() == 0


def test_sweep_keeps_held_objects(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "replay/a", BODY))
    objects_folder.run(SetLegalHold(BUCKET, "replay/a", True))
    objects_folder.clock.moment += 40 * DAY_S
    assert objects_folder.sweep() == 0
    objects_folder.run(SetLegalHold(BUCKET, "replay/a", False))
    assert objects_folder.sweep() == 1
    with pytest.raises(NotFound):
        objects_folder.run(GetObject(BUCKET, "replay/a"))


def test_hold_does_not_reset_the_age_of_an_object(objects_folder: ObjectsFolder) -> None:
    put = objects_folder.run(PutObject(BUCKET, "replay/a", BODY))
    objects_folder.clock.moment += DAY_S
    objects_folder.run(SetLegalHold(BUCKET, "replay/a", True))
    assert objects_folder.run(HeadObject(BUCKET, "replay/a")).put_at == put.put_at


def test_sweep_continues_past_a_damaged_object(objects_folder: ObjectsFolder) -> None:
    for key in ("replay/a", "replay/b"):
        objects_folder.run(PutObject(BUCKET, key, BODY))
    replace(objects_folder, "replay/a", lambda file: file[:20])
    objects_folder.clock.moment += 31 * DAY_S
    assert objects_folder.sweep() == 1
    assert objects_folder.find_file("replay/a").exists()


def test_foreign_staged_file_is_left_alone(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY))
    foreign = [
        objects_folder.folder / BUCKET / STAGING_FOLDER / name for name in ("notes.txt", "old-notes", "1")
    ]
    for each in foreign:
        each.write_text("not ours")
    objects_folder.clock.moment += 2 * DAY_S
    objects_folder.sweep()
    assert sorted(objects_folder.list_staged()) == sorted(foreign)


def test_interleaved_puts_of_two_engines_use_different_staged_files(
    objects_folder: ObjectsFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = objects_folder.objects, objects_folder.open()
    sync = disk.sync_path

    def interrupt(path: Path) -> None:
        monkeypatch.setattr(file_storage, "sync_path", sync)
        asyncio.run(other.run(PutObject(BUCKET, "theirs", b"theirs", create_only=True)))
        sync(path)

    monkeypatch.setattr(file_storage, "sync_path", interrupt)
    mine._execute(PutObject(BUCKET, "mine", b"mine", create_only=True))

    assert [objects_folder.run(GetObject(BUCKET, key)).body for key in ("mine", "theirs")] == [
        b"mine",
        b"theirs",
    ]


def test_sweep_removes_staged_files_of_a_killed_process(objects_folder: ObjectsFolder) -> None:
    objects_folder.run(PutObject(BUCKET, "a", BODY))
    stray = (
        objects_folder.folder / BUCKET / STAGING_FOLDER / f"{objects_folder.clock.moment:.3f}-{os.getpid()}-9"
    )
    stray.write_bytes(b"half of")
    objects_folder.sweep()
    assert objects_folder.list_staged() == [stray]
    objects_folder.clock.moment += 2 * DAY_S
    objects_folder.sweep()
    assert objects_folder.list_staged() == []


def lose_all(folder: ObjectsFolder) -> Path:
    shutil.rmtree(folder.folder)
    return folder.folder


def lose_bucket(folder: ObjectsFolder) -> Path:
    shutil.rmtree(folder.folder / BUCKET)
    return folder.folder / BUCKET


def lose_objects(folder: ObjectsFolder) -> Path:
    shutil.rmtree(folder.folder / BUCKET / OBJECTS_FOLDER)
    return folder.folder / BUCKET / OBJECTS_FOLDER


@pytest.mark.parametrize("lose", [lose_all, lose_bucket, lose_objects])
@pytest.mark.parametrize(
    "operation",
    [
        GetObject(BUCKET, "one"),
        HeadObject(BUCKET, "one"),
        ListObjects(BUCKET),
        PutObject(bucket=BUCKET, key="two", body=BODY),
        SweepBucket(BUCKET),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_lost_folder_is_neither_empty_nor_created_again(
    objects_folder: ObjectsFolder, lose: Callable[[ObjectsFolder], Path], operation: Operation[object]
) -> None:
    objects_folder.run(PutObject(bucket=BUCKET, key="one", body=BODY))
    objects_folder.run(CreateBucket(BucketDefinition(name="another")))
    lost = lose(objects_folder)

    with pytest.raises(StoreFileError, match="says that it held data"):
        objects_folder.run(operation)

    assert not any(each.is_file() for each in lost.rglob("*") if each.name != LOCK_FILE)
    if lose is not lose_all:
        with pytest.raises(StoreFileError, match="says that it held data"):
            inspect_buckets(objects_folder.folder)


def test_changed_definition_of_a_bucket_is_not_used(objects_folder: ObjectsFolder) -> None:
    """A shorter lifetime would delete objects."""
    path = objects_folder.folder / BUCKET / DEFINITION_FILE
    path.write_bytes(path.read_bytes().replace(b'"days":30', b'"days":10'))

    for operation in (
        DescribeBucket(BUCKET),
        SweepBucket(BUCKET),
        PutObject(bucket=BUCKET, key="k", body=BODY),
    ):
        with pytest.raises(StoreFileError, match="does not match its checksum"):
            objects_folder.run(operation)


def test_no_changed_bit_of_a_definition_is_used() -> None:
    definition = BucketDefinition(name=BUCKET, lifecycle=(LifecycleRule(prefix="a/", days=30),), holds=True)
    content = encode_definition(definition)
    for place, bit in product(range(len(content)), range(8)):
        changed = bytearray(content)
        changed[place] ^= 1 << bit
        try:
            assert decode_definition(bytes(changed), "bucket.json") == definition
        except StoreFileError:
            continue


def test_definition_of_an_older_version_has_no_checksum(objects_folder: ObjectsFolder) -> None:
    expected = objects_folder.run(DescribeBucket(BUCKET))
    path = objects_folder.folder / BUCKET / DEFINITION_FILE
    fields = json.loads(path.read_bytes())
    del fields["checksum"]
    path.write_text(json.dumps(fields))

    assert objects_folder.run(DescribeBucket(BUCKET)) == expected


# --- objects of earlier versions ----------------------------------------------------------------------------


DEEP_KEY = "202611/r-1/request/original.json"


def put_as_earlier_version(objects_folder: ObjectsFolder, key: str, body: bytes) -> Path:
    """Put an object and move its file to where versions before 0.3 stored it."""
    objects_folder.run(PutObject(BUCKET, key, body))
    former = to_former_path(BUCKET, key)
    assert former is not None
    target = objects_folder.folder / former
    target.parent.mkdir(parents=True)
    objects_folder.find_file(key).rename(target)
    return target


def test_object_of_an_earlier_version_is_read_listed_and_not_created_again(
    objects_folder: ObjectsFolder,
) -> None:
    put_as_earlier_version(objects_folder, DEEP_KEY, BODY)
    new = "202611/r-1/response/answer.json"
    objects_folder.run(PutObject(BUCKET, new, BODY))
    assert objects_folder.run(GetObject(BUCKET, DEEP_KEY)).body == BODY
    for prefix in ("", "2026", "202611/", "202611/r-1/", "202611/r-1/re"):
        listed = objects_folder.run(ListObjects(BUCKET, prefix=prefix)).objects
        assert [each.key for each in listed] == [DEEP_KEY, new], prefix
    with pytest.raises(AlreadyExists):
        objects_folder.run(PutObject(BUCKET, DEEP_KEY, b"another", create_only=True))
    assert verify_objects(objects_folder.folder, None, lambda *_: None).counts == {BUCKET: 2}


def test_object_of_an_earlier_version_is_replaced_and_deleted_in_its_place(
    objects_folder: ObjectsFolder,
) -> None:
    former = put_as_earlier_version(objects_folder, DEEP_KEY, BODY)
    objects_folder.run(PutObject(BUCKET, DEEP_KEY, b"another", create_only=False))
    assert former.exists() and not objects_folder.find_file(DEEP_KEY).exists()
    assert objects_folder.run(GetObject(BUCKET, DEEP_KEY)).body == b"another"
    objects_folder.run(DeleteObject(BUCKET, DEEP_KEY))
    with pytest.raises(NotFound):
        objects_folder.run(GetObject(BUCKET, DEEP_KEY))
    assert not former.exists()


@pytest.mark.parametrize(
    "key",
    ["a", "a/b", "a/b/c", "a=b/c/d", "a/=/ä b", "a//c", "/b/c", "a/b/c/", "x/" * 9 + "@", "a/b/" + "é/" * 90],
)
def test_key_is_recovered_from_its_path_and_found_by_every_prefix(key: str) -> None:
    path = to_path(BUCKET, key)
    assert parse_key(BUCKET, path) == key
    assert all(len(part) <= 255 for part in path.split("/"))
    for end in range(len(key) + 1):
        assert any(path.startswith(f"{folder}/") for folder in to_folders(BUCKET, key[:end]))
    former = to_former_path(BUCKET, key)
    assert former is None or parse_key(BUCKET, former) == key
