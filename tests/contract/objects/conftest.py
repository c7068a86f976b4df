"""Fixtures of the objects contract: every test runs on each of three engines.

memory   the local engine, in memory
folder   the local engine, on disk and encrypted
moto     the S3 engine, at an independent server over HTTP
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.security.ciphers import open_file_cipher
from holdfast.stores.objects.local import open_local_objects, open_memory_objects
from holdfast.stores.objects.local.paths import to_path
from holdfast.stores.objects.s3 import open_s3
from tests.contract.moto import expect_failures, moto_endpoint

from .store import FakeClock, Store

# Tests on which moto differs from S3: each must fail, and one that passes again is reported.
MOTO = {"test_missing_object_cannot_be_held": "answers 500 to a hold on an object that is not there"}
ENGINES = ("memory", "folder", "moto")


@pytest.fixture(scope="session", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield the objects store under test, once per engine."""
    if request.param == "memory":
        yield _open_memory_store()
    elif request.param == "folder":
        yield _open_folder_store(tmp_path_factory.mktemp("objects"))
    else:
        with moto_endpoint() as address:
            yield _open_moto_store(address)


def _open_memory_store() -> Store:
    objects = open_memory_objects(clock=FakeClock())

    def damage(bucket: str, key: str) -> None:
        path = to_path(bucket, key)
        file = objects._storage.get(path)
        objects._storage.put(path, file[:-1] + bytes([file[-1] ^ 1]), create_only=False)

    return Store("memory", objects, damage)


def _open_folder_store(folder: Path) -> Store:
    def damage(bucket: str, key: str) -> None:
        path = folder / "objects" / to_path(bucket, key)
        file = path.read_bytes()
        path.write_bytes(file[:-1] + bytes([file[-1] ^ 1]))

    cipher = open_file_cipher(folder / "keys.json")
    return Store("folder", open_local_objects(folder / "objects", cipher, clock=FakeClock()), damage)


def _open_moto_store(address: str) -> Store:
    objects = open_s3(f"s3+http://{address}")

    def damage(bucket: str, key: str) -> None:
        client = objects._client
        found = client.get_object(Bucket=bucket, Key=key)
        body = found["Body"].read()
        client.put_object(
            Bucket=bucket, Key=key, Body=body[:-1] + bytes([body[-1] ^ 1]), Metadata=found["Metadata"]
        )

    return Store("moto", objects, damage)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_failures(items, Path(__file__).parent, MOTO)
