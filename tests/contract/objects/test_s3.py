"""The S3 objects engine at moto's server and at a failing one: encryption, versions, hashes and errors."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from holdfast import Bucket
from holdfast.core.errors import (
    AccessRefused,
    HoldfastError,
    NotFound,
    ObjectDamaged,
    OutcomeUnknown,
    RequestRefused,
    SettingsError,
    StoreFailed,
    StoreUnreachable,
    Throttled,
)
from holdfast.operations.objects import (
    BucketDefinition,
    CreateBucket,
    DeleteObject,
    GetObject,
    HeadObject,
    LifecycleRule,
    ListObjects,
    Operation,
    PutObject,
    SetLegalHold,
)
from holdfast.stores.objects.s3 import S3Objects, Timeouts, open_s3
from tests.contract.moto import moto_endpoint

from .endpoint import run_fixed_answer_server

OPERATIONS: list[Operation[Any]] = [
    PutObject("bucket", "a", b"x"),
    PutObject("bucket", "a", b"x", create_only=True),
    GetObject("bucket", "a"),
    HeadObject("bucket", "a"),
    DeleteObject("bucket", "a"),
    ListObjects("bucket"),
    SetLegalHold("bucket", "a", True),
    CreateBucket(BucketDefinition(name="bucket")),
]


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Objects]:
    with moto_endpoint() as address:
        yield open_s3(f"s3+http://{address}")


async def run(objects: S3Objects, operation: Operation[Any]) -> Any:
    return await objects.run(operation)


@pytest.mark.parametrize(
    ("bucket", "wanted"),
    [
        (Bucket("sse-s3"), ("AES256", None)),
        (Bucket("sse-kms", encryption="kms"), ("aws:kms", None)),
        (Bucket("sse-kms-key", encryption="kms", kms_key="alias/archive"), ("aws:kms", "alias/archive")),
    ],
    ids=lambda value: value.name if isinstance(value, Bucket) else "",
)
async def test_a_put_asks_for_the_encryption_of_its_bucket(
    s3: S3Objects, bucket: Bucket, wanted: tuple[str, str | None]
) -> None:
    await run(s3, CreateBucket(bucket.definition("")))
    # Without the bucket's own default, the encryption can only come from the put.
    s3._client.delete_bucket_encryption(Bucket=bucket.name)
    shelf = bucket.objects("all/{id}", content_type="text/plain")
    await run(s3, shelf.put(b"x", id="a").build_request(""))
    seen = s3._client.head_object(Bucket=bucket.name, Key="all/a")
    assert (seen["ServerSideEncryption"], seen.get("SSEKMSKeyId")) == wanted


@pytest.mark.proves("PG-32")
@pytest.mark.proves("PG-35")
async def test_created_kms_bucket_has_every_declared_setting(s3: S3Objects) -> None:
    bucket = Bucket("phi", encryption="kms", kms_key="alias/phi-{environment}", versions=True)
    shelf = bucket.objects("all/{id}", content_type="text/plain")
    await run(s3, CreateBucket(bucket.definition("dev")))
    await run(s3, shelf.put(b"x", id="a").build_request("dev"))
    told_of = s3._client.get_bucket_encryption(Bucket="phi-dev")["ServerSideEncryptionConfiguration"]
    assert told_of["Rules"][0]["BucketKeyEnabled"] is True
    assert s3._client.head_object(Bucket="phi-dev", Key="all/a")["SSEKMSKeyId"] == "alias/phi-dev"
    blocked = s3._client.get_public_access_block(Bucket="phi-dev")["PublicAccessBlockConfiguration"]
    assert set(blocked.values()) == {True} and len(blocked) == 4
    assert s3._client.get_bucket_versioning(Bucket="phi-dev")["Status"] == "Enabled"
    rules = s3._client.get_bucket_lifecycle_configuration(Bucket="phi-dev")["Rules"]
    assert [rule["NoncurrentVersionExpiration"] for rule in rules] == [{"NoncurrentDays": 30}]


async def test_keeps_an_existing_public_access_setting(s3: S3Objects) -> None:
    definition = BucketDefinition(name="decided")
    await run(s3, CreateBucket(definition))
    decided = {"BlockPublicAcls": True, "IgnorePublicAcls": True} | dict.fromkeys(
        ("BlockPublicPolicy", "RestrictPublicBuckets"), False
    )
    s3._client.put_public_access_block(Bucket="decided", PublicAccessBlockConfiguration=decided)
    await run(s3, CreateBucket(definition))
    assert s3._client.get_public_access_block(Bucket="decided")["PublicAccessBlockConfiguration"] == decided


async def test_a_put_carries_a_checksum_for_s3_to_verify() -> None:
    """Object Lock also requires a checksum."""
    heard: list[dict[str, str]] = []
    with run_fixed_answer_server(403, error_xml("AccessDenied"), heard) as address:
        await collect_errors(address, PutObject("bucket", "a", b"x", create_only=True))
    assert heard[-1]["x-amz-checksum-sha256"] == b64encode(hashlib.sha256(b"x").digest()).decode()
    assert heard[-1]["if-none-match"] == "*"


async def test_reading_an_object_that_another_program_put_is_refused(s3: S3Objects) -> None:
    await run(s3, CreateBucket(BucketDefinition(name="foreign")))
    s3._client.put_object(Bucket="foreign", Key="a", Body=b"theirs", ContentType="text/plain")
    with pytest.raises(ObjectDamaged, match="it has no hash of Holdfast"):
        await run(s3, GetObject("foreign", "a"))
    assert (await run(s3, HeadObject("foreign", "a"))).sha256 == ""


async def test_noncurrent_versions_in_a_bucket_with_holds_expire_after_a_day(s3: S3Objects) -> None:
    definition = BucketDefinition(
        name="versions", lifecycle=(LifecycleRule(prefix="a/", days=3),), holds=True
    )
    await run(s3, CreateBucket(definition))
    rules = s3._client.get_bucket_lifecycle_configuration(Bucket="versions")["Rules"]
    assert [rule.get("NoncurrentVersionExpiration") for rule in rules] == [None, {"NoncurrentDays": 1}]


async def test_a_deleted_object_leaves_no_version_behind(s3: S3Objects) -> None:
    await run(s3, CreateBucket(BucketDefinition(name="erased", holds=True)))
    for body in (b"first", b"second"):
        await run(s3, PutObject("erased", "a", body))
    await run(s3, PutObject("erased", "ab", b"another"))
    await run(s3, DeleteObject("erased", "a"))
    left = s3._client.list_object_versions(Bucket="erased")
    assert [each["Key"] for each in left["Versions"]] == ["ab"]
    assert "DeleteMarkers" not in left


@pytest.mark.proves("RP-2")
async def test_versions_behind_a_delete_marker_are_deleted_too(s3: S3Objects) -> None:
    await run(s3, CreateBucket(BucketDefinition(name="marked", holds=True)))
    await run(s3, PutObject("marked", "a", b"first"))
    # As a lifecycle rule does in a bucket with versions.
    s3._client.delete_object(Bucket="marked", Key="a")
    await run(s3, DeleteObject("marked", "a"))
    left = s3._client.list_object_versions(Bucket="marked")
    assert ("Versions" in left, "DeleteMarkers" in left) == (False, False)


@pytest.mark.proves("RP-2")
async def test_an_object_of_more_versions_than_one_page_is_deleted_whole(
    s3: S3Objects, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run(s3, CreateBucket(BucketDefinition(name="paged", holds=True)))
    for number in range(5):
        await run(s3, PutObject("paged", "a", f"{number}".encode()))
        await run(s3, PutObject("paged", "ab", f"{number}".encode()))
    with monkeypatch.context() as small:
        pages = partial(s3._client.list_object_versions, MaxKeys=2)
        small.setattr(s3._client, "list_object_versions", pages)
        await run(s3, DeleteObject("paged", "a"))
    left = s3._client.list_object_versions(Bucket="paged")
    assert [each["Key"] for each in left["Versions"]] == ["ab"] * 5
    with pytest.raises(NotFound):
        await run(s3, GetObject("paged", "a"))


async def test_a_bucket_in_another_region_is_made_there() -> None:
    with moto_endpoint() as address:
        objects = open_s3(f"s3+http://{address}")
        objects._client.meta._client_config.region_name = "eu-central-1"
        await run(objects, CreateBucket(BucketDefinition(name="elsewhere")))
        seen = objects._client.get_bucket_location(Bucket="elsewhere")
        assert seen["LocationConstraint"] == "eu-central-1"


# --- failures -----------------------------------------------------------------------------------------------


def error_xml(code: str) -> str:
    """Return the body of an S3 error response with this code."""
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>told so</Message></Error>"


async def collect_errors(address: str, *operations: Operation[Any]) -> list[HoldfastError]:
    """Run each operation at this address and return the errors; each must raise one."""
    objects = open_s3(f"s3+http://{address}", timeouts=Timeouts(connect_s=2, read_s=2))
    found = []
    for operation in operations:
        with pytest.raises(HoldfastError) as raised:
            await run(objects, operation)
        found.append(raised.value)
    return found


async def test_missing_server_is_unreachable() -> None:
    """Reads raise `StoreUnreachable`; writes may raise `OutcomeUnknown`."""
    for error in await collect_errors("127.0.0.1:1", *OPERATIONS):
        assert isinstance(error, (StoreUnreachable, OutcomeUnknown)), error


@pytest.mark.parametrize(
    ("status", "code", "kinds"),
    [
        (403, "AccessDenied", (AccessRefused,)),
        (404, "NoSuchBucket", (NotFound,)),
        (500, "InternalError", (StoreFailed, OutcomeUnknown)),
        (503, "SlowDown", (Throttled, StoreFailed, OutcomeUnknown)),
        (400, "Whatever", (RequestRefused,)),
    ],
    ids=["403", "404", "500", "503", "400"],
)
async def test_maps_every_error_answer(
    status: int, code: str, kinds: tuple[type[HoldfastError], ...]
) -> None:
    with run_fixed_answer_server(status, error_xml(code)) as address:
        for error in await collect_errors(address, *OPERATIONS):
            assert isinstance(error, kinds), error


@pytest.mark.parametrize(
    ("status", "code", "operation"),
    [
        (status, code, operation)
        for operation in (
            PutObject("bucket", "a", b"x", create_only=True),
            GetObject("bucket", "a"),
            ListObjects("bucket"),
            SetLegalHold("bucket", "a", True),
            CreateBucket(BucketDefinition(name="bucket")),
        )
        for status, code in (
            (400, "InvalidRequest"),
            (400, "EntityTooLarge"),
            (403, "SignatureDoesNotMatch"),
            (404, "NoSuchBucket"),
            (500, "InternalError"),
        )
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Operation) else str(value),
)
async def test_keeps_the_code_and_sentence_of_s3(status: int, code: str, operation: Operation[Any]) -> None:
    with run_fixed_answer_server(status, error_xml(code)) as address:
        (error,) = await collect_errors(address, operation)

    assert (error.code, "told so" in error.message) == (code, True), error
    assert error.__cause__ is not None


async def test_a_conflict_of_a_read_is_not_an_object_that_exists() -> None:
    with run_fixed_answer_server(409, error_xml("OperationAborted")) as address:
        (error,) = await collect_errors(address, GetObject("bucket", "a"))

    assert (type(error), error.code) == (RequestRefused, "OperationAborted")


async def test_moto_keeps_the_code_of_a_missing_bucket_and_of_a_taken_key(s3: S3Objects) -> None:
    """An independent server writes the answers."""
    await run(s3, CreateBucket(BucketDefinition(name="codes")))
    await run(s3, PutObject("codes", "a", b"x", create_only=True))
    for operation, code in (
        (GetObject("codes", "missing"), "NoSuchKey"),
        (GetObject("nowhere", "a"), "NoSuchBucket"),
        (PutObject("codes", "a", b"y", create_only=True), "PreconditionFailed"),
    ):
        with pytest.raises(HoldfastError) as raised:
            await run(s3, operation)
        assert raised.value.code == code, raised.value


async def test_a_put_without_an_answer_may_be_repeated() -> None:
    with run_fixed_answer_server(500, error_xml("InternalError")) as address:
        (error,) = await collect_errors(address, PutObject("bucket", "a", b"x", create_only=True))
    assert isinstance(error, OutcomeUnknown)
    assert error.safe_to_repeat


def test_missing_region_is_a_settings_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(SettingsError, match="region"):
        open_s3("s3://")
