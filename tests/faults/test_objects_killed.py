"""A process that puts objects is killed at random moments: what it acknowledged is there whole, half of one is never seen."""

from __future__ import annotations

import asyncio
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

from .objects_writer import BODY_BYTES, BUCKET, REPLACED, body_of

KILLS = 100 if os.environ.get("HOLDFAST_SOAK") == "1" else 10
WRITER = "tests.faults.objects_writer"
ROOT = Path(__file__).parents[2]


def test_after_each_kill_every_acknowledged_object_is_there_whole(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    objects = open_local_objects(tmp_path / "objects", open_file_cipher(tmp_path / "keys.json"))
    asyncio.run(_prepared(objects))
    created: dict[str, int] = {}
    for kill in range(KILLS):
        acknowledged = _killed_writer(tmp_path, f"run-{kill}", random)
        created |= {key: number for what, key, number in acknowledged if what == "created"}
        replaced = {key: number for what, key, number in acknowledged if what == "replaced"}
        asyncio.run(_judge(objects, created, replaced))


def _killed_writer(folder: Path, name: str, random: Random) -> list[tuple[str, str, int]]:
    """What it said before it was killed: after so many acknowledgements, and a moment in the next one."""
    writer = subprocess.Popen(
        [sys.executable, "-m", WRITER, str(folder), name], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(random.randrange(1, 12))]
    # The pause is where in the next put the kill falls, nothing waits for it.
    for _ in range(random.randrange(200_000)):
        pass
    writer.kill()
    # What it could still say before the kill was acknowledged as well; a line that was cut off was not.
    said += [line for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    writer.stdout.close()
    assert writer.wait() == -9, said
    return [(what, key, int(number)) for what, key, number in map(str.split, said)]


async def _prepared(objects: LocalObjects) -> None:
    await objects.run(CreateBucket(BucketDefinition(name=BUCKET)))
    for number in range(REPLACED):
        key = f"replaced/{number}"
        await objects.run(PutObject(BUCKET, key, body_of(key, number)))


async def _judge(objects: LocalObjects, created: dict[str, int], replaced: dict[str, int]) -> None:
    for key, number in created.items():
        assert (await objects.run(GetObject(BUCKET, key))).body == body_of(key, number)
    for key, number in replaced.items():
        # The one that was acknowledged, or the one after it, which may have been under way.
        body = (await objects.run(GetObject(BUCKET, key))).body
        assert body in (body_of(key, number), body_of(key, number + REPLACED))
    listed = await _all(objects)
    assert created.keys() <= {each.key for each in listed}
    for each in listed:
        # Reading one verifies its hash: half of one could not be read.
        assert len((await objects.run(GetObject(BUCKET, each.key))).body) == BODY_BYTES


async def _all(objects: LocalObjects) -> list[ObjectSummary]:
    found: list[ObjectSummary] = []
    cursor = None
    while True:
        page = await objects.run(ListObjects(BUCKET, cursor=cursor))
        found += page.objects
        cursor = page.cursor
        if cursor is None:
            return found
