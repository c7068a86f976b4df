"""Buckets on every objects engine: create, change, describe and sweep."""

from __future__ import annotations

import pytest

from holdfast.core.errors import AlreadyExists, InvalidRequest, NotFound
from holdfast.operations.objects import (
    BucketDefinition,
    CreateBucket,
    DescribeBucket,
    GetObject,
    LifecycleRule,
    PutObject,
    SetLegalHold,
    SweepBucket,
)

from .store import Store


@pytest.mark.parametrize(
    "definition",
    [
        BucketDefinition(name="described-plain"),
        BucketDefinition(
            name="described-full",
            encryption="kms",
            kms_key="alias/archive",
            lifecycle=(LifecycleRule(prefix="a/", days=30), LifecycleRule(prefix="b/", days=1)),
            holds=True,
        ),
        BucketDefinition(name="described-versions", versions=True),
        BucketDefinition(name="described-held-versions", holds=True, versions=True),
        BucketDefinition(name="described-all", lifecycle=(LifecycleRule(prefix="", days=7),)),
    ],
    ids=lambda definition: str(definition.name),
)
@pytest.mark.proves("PG-36")
def test_a_bucket_is_described_as_it_was_made(store: Store, definition: BucketDefinition) -> None:
    store.run(CreateBucket(definition))
    assert store.run(DescribeBucket(definition.name)) == definition


def test_updates_an_existing_bucket_and_keeps_its_objects(store: Store) -> None:
    bucket = store.create_bucket(lifecycle=(LifecycleRule(prefix="a/", days=1),))
    store.run(PutObject(bucket, "a", b"kept"))
    changed = BucketDefinition(name=bucket, encryption="kms", holds=True)
    store.run(CreateBucket(changed))
    assert store.run(DescribeBucket(bucket)) == changed
    assert store.run(GetObject(bucket, "a")).body == b"kept"
    store.run(PutObject(bucket, "b", b"new"))
    store.run(SetLegalHold(bucket, "b", True))


def test_legal_holds_cannot_be_disabled(store: Store) -> None:
    bucket = store.create_bucket(holds=True)
    with pytest.raises(AlreadyExists, match="legal holds"):
        store.run(CreateBucket(BucketDefinition(name=bucket)))
    assert store.run(DescribeBucket(bucket)).holds


def test_sweep_keeps_young_objects(store: Store) -> None:
    bucket = store.create_bucket(lifecycle=(LifecycleRule(prefix="", days=1),))
    store.run(PutObject(bucket, "a", b"young"))
    assert store.run(SweepBucket(bucket)) == 0
    assert store.run(GetObject(bucket, "a")).body == b"young"


def test_missing_bucket_is_neither_described_nor_swept(store: Store) -> None:
    for operation in (DescribeBucket("never-made"), SweepBucket("never-made")):
        with pytest.raises(NotFound):
            store.run(operation)


@pytest.mark.parametrize(
    "rules",
    [
        (LifecycleRule(prefix="a", days=0),),
        (LifecycleRule(prefix="a", days=1), LifecycleRule(prefix="a", days=2)),
    ],
)
def test_rejects_an_invalid_lifecycle(store: Store, rules: tuple[LifecycleRule, ...]) -> None:
    with pytest.raises(InvalidRequest, match="lifecycle"):
        store.run(CreateBucket(BucketDefinition(name="refused", lifecycle=rules)))
