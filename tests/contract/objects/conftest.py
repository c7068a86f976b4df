"""The engines this suite runs over: each test once on each.

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
from holdfast.stores.objects.local.paths import path_of
from holdfast.stores.objects.s3 import open_s3
from tests.contract.moto import expect_faults, moto_endpoint

from .store import Hands, Store

# Where moto differs from S3: each must fail, and one that passes again is reported.
MOTO = {"test_what_is_not_there_cannot_be_held": "answers 500 to a hold on an object that is not there"}
ENGINES = ("memory", "folder", "moto")


@pytest.fixture(scope="session", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "memory":
        yield _in_memory()
    elif request.param == "folder":
        yield _in_folder(tmp_path_factory.mktemp("objects"))
    else:
        with moto_endpoint() as address:
            yield _at_moto(address)


def _in_memory() -> Store:
    objects = open_memory_objects(clock=Hands())

    def damage(bucket: str, key: str) -> None:
        path = path_of(bucket, key)
        file = objects._medium.get(path)
        objects._medium.put(path, file[:-1] + bytes([file[-1] ^ 1]), create_only=False)

    return Store("memory", objects, damage)


def _in_folder(folder: Path) -> Store:
    def damage(bucket: str, key: str) -> None:
        path = folder / "objects" / path_of(bucket, key)
        file = path.read_bytes()
        path.write_bytes(file[:-1] + bytes([file[-1] ^ 1]))

    cipher = open_file_cipher(folder / "keys.json")
    return Store("folder", open_local_objects(folder / "objects", cipher, clock=Hands()), damage)


def _at_moto(address: str) -> Store:
    objects = open_s3(f"s3+http://{address}")

    def damage(bucket: str, key: str) -> None:
        client = objects._client
        told = client.get_object(Bucket=bucket, Key=key)
        body = told["Body"].read()
        client.put_object(
            Bucket=bucket, Key=key, Body=body[:-1] + bytes([body[-1] ^ 1]), Metadata=told["Metadata"]
        )

    return Store("moto", objects, damage)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_faults(items, Path(__file__).parent, MOTO)
