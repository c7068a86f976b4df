"""A process that puts objects is killed at random: acknowledged objects are whole, none is seen in part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random, SystemRandom

from holdfast.operations.objects import (
    BucketDefinition,
    CreateBucket,
    GetObject,
    ListObjects,
    ObjectSummary,
    PutObject,
)
from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.objects.local import LocalObjects, open_local_objects

from .objects_writer import BODY_BYTES, BUCKET, REPLACED, make_body

KILLS = 100 if os.environ.get("HOLDFAST_SOAK") == "1" else 10
WRITER = "tests.faults.stores.objects_writer"
ROOT = Path(__file__).parents[3]


async def test_every_acknowledged_object_survives_a_kill(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    objects = open_local_objects(tmp_path / "objects", open_file_cipher(tmp_path / "keys.json"))
    await create_objects(objects)
    created: dict[str, int] = {}
    for kill in range(KILLS):
        acknowledged = run_writer_until_killed(tmp_path, f"run-{kill}", random)
        created |= {key: number for what, key, number in acknowledged if what == "created"}
        replaced = {key: number for what, key, number in acknowledged if what == "replaced"}
        await check_objects(objects, created, replaced)


def run_writer_until_killed(folder: Path, name: str, random: Random) -> list[tuple[str, str, int]]:
    """Run a writer, kill it after a random number of puts, and return the puts that it acknowledged."""
    writer = subprocess.Popen(
        [sys.executable, "-m", WRITER, str(folder), name], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(random.randrange(1, 12))]
    # The pause decides where in the next put the kill falls; nothing waits for it.
    for _ in range(random.randrange(200_000)):
        pass
    writer.kill()
    # Complete lines printed before the kill were acknowledged as well; a truncated one was not.
    said += [line for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    writer.stdout.close()
    assert writer.wait() == -9, said
    return [(what, key, int(number)) for what, key, number in map(str.split, said)]


async def create_objects(objects: LocalObjects) -> None:
    """Create the bucket and the objects that the writer replaces."""
    await objects.run(CreateBucket(BucketDefinition(name=BUCKET)))
    for number in range(REPLACED):
        key = f"replaced/{number}"
        await objects.run(PutObject(BUCKET, key, make_body(key, number)))


async def check_objects(objects: LocalObjects, created: dict[str, int], replaced: dict[str, int]) -> None:
    """Check the content of every acknowledged object, and that every listed object can be read whole."""
    for key, number in created.items():
        assert (await objects.run(GetObject(BUCKET, key))).body == make_body(key, number)
    for key, number in replaced.items():
        # The acknowledged one, or the next, which may have been in progress.
        body = (await objects.run(GetObject(BUCKET, key))).body
        assert body in (make_body(key, number), make_body(key, number + REPLACED))
    listed = await list_objects(objects)
    assert created.keys() <= {each.key for each in listed}
    for each in listed:
        # Reading an object verifies its hash, so a partial one would fail.
        assert len((await objects.run(GetObject(BUCKET, each.key))).body) == BODY_BYTES


async def list_objects(objects: LocalObjects) -> list[ObjectSummary]:
    found: list[ObjectSummary] = []
    cursor = None
    while True:
        page = await objects.run(ListObjects(BUCKET, cursor=cursor))
        found += page.objects
        cursor = page.cursor
        if cursor is None:
            return found
