"""The engine of a folder: encrypted, bound to its place, on the disk before it is acknowledged, ended in time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast.core.errors import NotFound, ObjectDamaged, ObjectHeld, SettingsError, StoreFull
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
from holdfast.stores.objects.local import LocalObjects, media, open_local_objects
from holdfast.stores.objects.local.paths import STAGING, path_of

R = TypeVar("R")

BUCKET = "archive"
DAY_S = 86_400.0
BODY = b"my number is 555 0199"


@dataclass
class Hands:
    moment: float = 1_763_200_000.0

    def now(self) -> float:
        return self.moment


class Place:
    """A folder of objects, and everything around it."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.folder, self.keys = Hands(), folder / "objects", folder / "keys.json"
        self.objects = self.opened()

    @property
    def cipher(self) -> FileCipher:
        return open_file_cipher(self.keys)

    def opened(self) -> LocalObjects:
        return open_local_objects(self.folder, self.cipher, clock=self.clock)

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self._run(operation))

    async def _run(self, operation: Operation[R]) -> R:
        return await self.objects.run(operation)

    def sweep(self) -> int:
        return self.run(SweepBucket(BUCKET))

    def file(self, key: str) -> Path:
        return self.folder / path_of(BUCKET, key)

    def staged(self) -> list[Path]:
        return list((self.folder / BUCKET / STAGING).iterdir())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path)
    made.run(
        CreateBucket(
            BucketDefinition(name=BUCKET, lifecycle=(LifecycleRule(prefix="replay/", days=30),), holds=True)
        )
    )
    return made


# --- at rest ------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-44")
def test_no_file_has_anything_of_the_body_in_it(place: Place) -> None:
    place.run(PutObject(BUCKET, "a", BODY))
    place.run(PutObject(BUCKET, "a", BODY + b"!"))
    place.run(SetLegalHold(BUCKET, "a", True))
    files = [each for each in place.folder.rglob("*") if each.is_file()]
    assert place.file("a") in files
    assert not [each for each in files if b"0199" in each.read_bytes()]


def test_what_was_put_is_there_for_another_process_to_open(place: Place) -> None:
    place.run(PutObject(BUCKET, "a", BODY, content_type="text/plain", metadata={"k": "v"}))
    info = place.run(HeadObject(BUCKET, "a"))
    place.objects = place.opened()
    found = place.run(GetObject(BUCKET, "a"))
    assert (found.body, found.info) == (BODY, info)
    assert place.run(DescribeBucket(BUCKET)).holds


def test_an_object_is_put_at_the_time_of_the_clock(place: Place) -> None:
    assert place.run(PutObject(BUCKET, "a", BODY)).put_at == place.clock.moment
    assert place.run(ListObjects(BUCKET)).objects[0].put_at == place.clock.moment


def test_objects_stay_readable_when_keys_are_rotated(place: Place) -> None:
    place.run(PutObject(BUCKET, "a", BODY))
    place.cipher.rotate()
    place.run(PutObject(BUCKET, "b", BODY))
    assert [place.run(GetObject(BUCKET, key)).body for key in ("a", "b")] == [BODY, BODY]


def replace(place: Place, key: str, change: Callable[[bytes], bytes]) -> None:
    place.file(key).write_bytes(change(place.file(key).read_bytes()))


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
def test_a_file_that_was_changed_is_damaged(place: Place, change: Callable[[bytes], bytes]) -> None:
    place.run(PutObject(BUCKET, "a", BODY, content_type="text/plain"))
    replace(place, "a", change)
    with pytest.raises(ObjectDamaged):
        place.run(GetObject(BUCKET, "a"))


def test_a_file_in_the_place_of_another_is_damaged(place: Place) -> None:
    place.run(CreateBucket(BucketDefinition(name="another")))
    for bucket, key in ((BUCKET, "a"), (BUCKET, "b"), ("another", "a")):
        place.run(PutObject(bucket, key, BODY))
    replace(place, "b", lambda _: place.file("a").read_bytes())
    replace(place, "a", lambda _: (place.folder / path_of("another", "a")).read_bytes())
    for key in ("a", "b"):
        with pytest.raises(ObjectDamaged):
            place.run(GetObject(BUCKET, key))


def test_a_damaged_object_that_may_be_held_is_not_removed(place: Place) -> None:
    place.run(PutObject(BUCKET, "a", BODY))
    replace(place, "a", lambda file: file[:20])
    for operation in (DeleteObject(BUCKET, "a"), PutObject(BUCKET, "a", BODY)):
        with pytest.raises(ObjectDamaged):
            place.run(operation)
    assert place.file("a").exists()


def test_a_folder_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="setting `objects`"):
        open_local_objects(tmp_path / "file" / "objects", open_file_cipher(tmp_path / "keys.json"))


# --- on the disk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("create_only", [True, False])
def test_a_body_is_on_the_disk_before_its_name_and_its_name_before_the_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch, create_only: bool
) -> None:
    synced: list[tuple[str, bool]] = []
    sync = media._sync

    def listening(path: Path) -> None:
        sync(path)
        synced.append((str(path.relative_to(place.folder)), place.file("new/a").exists()))

    monkeypatch.setattr(media, "_sync", listening)
    place.run(PutObject(BUCKET, "new/a", BODY, create_only=create_only))
    staged, *folders = synced
    assert staged[0].startswith(f"{BUCKET}/{STAGING}/") and not staged[1]
    named = f"{BUCKET}/objects"
    assert folders == [(f"{named}/new", True), (named, True), (BUCKET, True), (".", True)][: len(folders)]
    assert len(folders) >= 2
    assert place.staged() == []


def test_a_deletion_is_on_the_disk_before_the_answer(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.run(PutObject(BUCKET, "a", BODY))
    synced: list[Path] = []
    monkeypatch.setattr(media, "_sync", synced.append)
    place.run(DeleteObject(BUCKET, "a"))
    assert synced == [place.file("a").parent]


def test_a_put_that_failed_leaves_nothing_behind(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(media, "_sync", failing)
    with pytest.raises(StoreFull):
        place.run(PutObject(BUCKET, "a", BODY))
    monkeypatch.undo()
    assert place.staged() == []
    with pytest.raises(NotFound):
        place.run(GetObject(BUCKET, "a"))


def test_an_overwrite_and_a_hold_at_once_lose_neither(place: Place) -> None:
    """Two engines on one folder, as two processes have them."""
    other = place.opened()
    for round in range(20):
        key, old, new = f"raced/{round}", b"old", b"new"
        place.run(PutObject(BUCKET, key, old))

        async def both(key: str = key, new: bytes = new) -> tuple[object, object]:
            return await asyncio.gather(
                place.objects.run(PutObject(BUCKET, key, new)),
                other.run(SetLegalHold(BUCKET, key, True)),
                return_exceptions=True,
            )

        overwritten, _ = asyncio.run(both())
        found = place.run(GetObject(BUCKET, key))
        assert found.info.held
        assert found.body == (old if isinstance(overwritten, ObjectHeld) else new)


# --- lifecycle ----------------------------------------------------------------------------------------------


def test_the_sweep_ends_what_is_past_its_lifecycle_and_nothing_else(place: Place) -> None:
    place.run(PutObject(BUCKET, "replay/old", BODY))
    place.run(PutObject(BUCKET, "kept/old", BODY))
    place.clock.moment += 10 * DAY_S
    place.run(PutObject(BUCKET, "replay/new", BODY))
    assert place.sweep() == 0
    place.clock.moment += 20 * DAY_S
    assert place.sweep() == 1
    assert [each.key for each in place.run(ListObjects(BUCKET)).objects] == ["kept/old", "replay/new"]
    assert place.sweep() == 0


def test_the_sweep_leaves_what_is_held(place: Place) -> None:
    place.run(PutObject(BUCKET, "replay/a", BODY))
    place.run(SetLegalHold(BUCKET, "replay/a", True))
    place.clock.moment += 40 * DAY_S
    assert place.sweep() == 0
    place.run(SetLegalHold(BUCKET, "replay/a", False))
    assert place.sweep() == 1
    with pytest.raises(NotFound):
        place.run(GetObject(BUCKET, "replay/a"))


def test_a_hold_does_not_make_an_object_younger(place: Place) -> None:
    put = place.run(PutObject(BUCKET, "replay/a", BODY))
    place.clock.moment += DAY_S
    place.run(SetLegalHold(BUCKET, "replay/a", True))
    assert place.run(HeadObject(BUCKET, "replay/a")).put_at == put.put_at


def test_the_sweep_goes_on_past_a_damaged_object(place: Place) -> None:
    for key in ("replay/a", "replay/b"):
        place.run(PutObject(BUCKET, key, BODY))
    replace(place, "replay/a", lambda file: file[:20])
    place.clock.moment += 31 * DAY_S
    assert place.sweep() == 1
    assert place.file("replay/a").exists()


def test_a_file_in_staging_that_is_not_ours_is_left_alone(place: Place) -> None:
    place.run(PutObject(BUCKET, "a", BODY))
    foreign = [place.folder / BUCKET / STAGING / name for name in ("notes.txt", "old-notes", "1")]
    for each in foreign:
        each.write_text("not ours")
    place.clock.moment += 2 * DAY_S
    place.sweep()
    assert sorted(place.staged()) == sorted(foreign)


def test_two_engines_that_put_in_the_same_moment_do_not_meet(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = place.objects, place.opened()
    sync = media._sync

    def interrupted(path: Path) -> None:
        monkeypatch.setattr(media, "_sync", sync)
        asyncio.run(other.run(PutObject(BUCKET, "theirs", b"theirs", create_only=True)))
        sync(path)

    monkeypatch.setattr(media, "_sync", interrupted)
    mine._do(PutObject(BUCKET, "mine", b"mine", create_only=True))

    assert [place.run(GetObject(BUCKET, key)).body for key in ("mine", "theirs")] == [b"mine", b"theirs"]


def test_the_sweep_removes_what_a_killed_process_left_on_its_way(place: Place) -> None:
    place.run(PutObject(BUCKET, "a", BODY))
    stray = place.folder / BUCKET / STAGING / f"{place.clock.moment:.3f}-{os.getpid()}-9"
    stray.write_bytes(b"half of")
    place.sweep()
    assert place.staged() == [stray]
    place.clock.moment += 2 * DAY_S
    place.sweep()
    assert place.staged() == []
