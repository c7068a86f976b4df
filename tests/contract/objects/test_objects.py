"""Objects on every engine: put, adopt, get, list, delete, legal holds and damage."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.core.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    ObjectDamaged,
    ObjectHeld,
    StoreClosed,
)
from holdfast.operations.objects import (
    AdoptObject,
    DeleteObject,
    GetObject,
    HeadObject,
    ListObjects,
    ObjectInfo,
    PutObject,
    SetLegalHold,
)
from holdfast.stores.objects.local import open_memory_objects

from .store import Store

BODY = b'{"text": "where is my order?"}'


def test_reads_back_body_content_type_and_metadata(store: Store) -> None:
    bucket = store.create_bucket()
    put = store.run(
        PutObject(bucket, "a/b.json", BODY, content_type="application/json", metadata={"event-id": "e 1"})
    )
    found = store.run(GetObject(bucket, "a/b.json"))
    assert found.body == BODY
    assert (found.info.content_type, found.info.metadata) == ("application/json", {"event-id": "e 1"})
    assert (found.info.key, found.info.bytes) == ("a/b.json", len(BODY))
    assert found.info.sha256 == put.sha256 == hashlib.sha256(BODY).hexdigest()
    assert found.info.etag == put.etag != ""
    assert not found.info.held


def test_head_returns_the_same_attributes_as_a_read(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "a", BODY, content_type="text/plain", metadata={"k": "v"}))
    info: ObjectInfo = store.run(HeadObject(bucket, "a"))
    assert info == store.run(GetObject(bucket, "a")).info


def test_adopts_an_existing_object_with_its_bytes(store: Store) -> None:
    bucket = store.create_bucket()
    first = store.run(AdoptObject(PutObject(bucket, "a", b"first", metadata={"k": "1"})))
    second = store.run(AdoptObject(PutObject(bucket, "a", b"second", metadata={"k": "2"})))
    assert (first.body, first.is_adopted) == (b"first", False)
    assert (second.body, second.is_adopted) == (b"first", True)
    assert (second.info.metadata, second.info.sha256) == ({"k": "1"}, first.info.sha256)


def test_concurrent_adopters_all_get_the_same_bytes(store: Store) -> None:
    bucket = store.create_bucket()
    with ThreadPoolExecutor(6) as pool:
        wanted = [AdoptObject(PutObject(bucket, "a", f"{n}".encode())) for n in range(6)]
        found = list(pool.map(store.run, wanted))
    assert len({each.body for each in found}) == 1
    assert [each.is_adopted for each in found].count(False) == 1


def test_rejects_adopting_an_invalid_object(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="Invalid key"):
        store.run(AdoptObject(PutObject(store.create_bucket(), "a//b", b"x")))


def test_stores_an_empty_object(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "empty", b""))
    assert store.run(GetObject(bucket, "empty")).body == b""
    assert store.run(HeadObject(bucket, "empty")).bytes == 0


def test_a_large_object_comes_back_whole(store: Store) -> None:
    """An object of 6 MiB is returned unchanged."""
    bucket = store.create_bucket()
    body = bytes(range(256)) * 4096 * 6
    store.run(PutObject(bucket, "large", body, create_only=True))
    assert store.run(GetObject(bucket, "large")).body == body


def test_missing_resource_is_not_found(store: Store) -> None:
    bucket = store.create_bucket()
    for operation in (
        GetObject(bucket, "none"),
        HeadObject(bucket, "none"),
        GetObject("no-such-bucket", "a"),
    ):
        with pytest.raises(NotFound):
            store.run(operation)


@pytest.mark.parametrize(
    "operation",
    [
        PutObject("no-such-bucket", "a", BODY),
        PutObject("no-such-bucket", "a", BODY, create_only=True),
        ListObjects("no-such-bucket"),
        DeleteObject("no-such-bucket", "a"),
        SetLegalHold("no-such-bucket", "a", True),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_operations_on_a_missing_bucket_fail(store: Store, operation: PutObject) -> None:
    with pytest.raises(NotFound):
        store.run(operation)


# --- creating and overwriting -------------------------------------------------------------------------------


def test_create_only_put_keeps_an_existing_object(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "a", b"first", create_only=True))
    with pytest.raises(AlreadyExists, match="a in contract"):
        store.run(PutObject(bucket, "a", b"second", create_only=True))
    assert store.run(GetObject(bucket, "a")).body == b"first"


def test_one_of_several_concurrent_creates_succeeds(store: Store) -> None:
    bucket = store.create_bucket()

    def create(number: int) -> int | None:
        try:
            store.run(PutObject(bucket, "raced", b"%d" % number, create_only=True))
        except AlreadyExists:
            return None
        return number

    with ThreadPoolExecutor(8) as threads:
        winners = [number for number in threads.map(create, range(8)) if number is not None]
    assert len(winners) == 1
    assert store.run(GetObject(bucket, "raced")).body == b"%d" % winners[0]


def test_an_overwrite_replaces_body_and_attributes(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "a", b"first", metadata={"k": "v"}))
    store.run(PutObject(bucket, "a", b"second", content_type="text/plain"))
    found = store.run(GetObject(bucket, "a"))
    assert (found.body, found.info.content_type, found.info.metadata) == (b"second", "text/plain", {})


def test_a_deleted_object_is_gone_and_may_be_created_again(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "a", b"first", create_only=True))
    store.run(DeleteObject(bucket, "a"))
    with pytest.raises(NotFound):
        store.run(GetObject(bucket, "a"))
    store.run(DeleteObject(bucket, "a"))
    store.run(PutObject(bucket, "a", b"again", create_only=True))
    assert store.run(GetObject(bucket, "a")).body == b"again"


def test_damaged_object_is_not_returned(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "a", BODY))
    store.damage(bucket, "a")
    with pytest.raises(ObjectDamaged, match="a in contract") as raised:
        store.run(GetObject(bucket, "a"))
    assert (raised.value.bucket, raised.value.key) == (bucket, "a")
    store.run(PutObject(bucket, "a", BODY))
    assert store.run(GetObject(bucket, "a")).body == BODY


# --- keys ---------------------------------------------------------------------------------------------------

KEYS = [
    "plain",
    "a/b/c.json",
    "plain/under",
    "spaces and ümlauts/ключ",
    "%2E%2E/x%2Fy",
    "%/%25",
    "a+/b@",
    "a@",
    "#1",
    "...",
    "~a/'\"*?<>|:;\\",
    "s" * 900,
    "s" * 199 + "/" + "t" * 201,
    "Case",
    "case",
]


def test_distinguishes_keys_of_every_kind(store: Store) -> None:
    bucket = store.create_bucket()
    for key in KEYS:
        store.run(PutObject(bucket, key, key.encode(), create_only=True))
    for key in KEYS:
        assert store.run(GetObject(bucket, key)).body == key.encode()
    listed = [each.key for each in store.run(ListObjects(bucket)).objects]
    assert listed == sorted(KEYS, key=str.encode)


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a/.", "a\nb", "a\0b", "k" * 1025, "\ud800"]
)
def test_rejects_an_invalid_key(store: Store, key: str) -> None:
    """Also refused: keys that are empty, too long, unprintable or not valid Unicode."""
    bucket = store.create_bucket()
    for operation in (PutObject(bucket, key, BODY), GetObject(bucket, key), DeleteObject(bucket, key)):
        with pytest.raises(InvalidRequest):
            store.run(operation)


@pytest.mark.parametrize(
    "metadata",
    [
        {"Upper": "v"},
        {"has space": "v"},
        {"k": "ü"},
        {"k": "a\nb"},
        {"k": " v"},
        {"sha256": "x"},
        {"k": "v" * 3000},
    ],
)
def test_rejects_metadata_that_headers_cannot_carry(store: Store, metadata: dict[str, str]) -> None:
    bucket = store.create_bucket()
    with pytest.raises(InvalidRequest, match="[Mm]etadata"):
        store.run(PutObject(bucket, "a", BODY, metadata=metadata))


def test_rejects_an_invalid_bucket_name(store: Store) -> None:
    for name in ("..", "a/b", "Upper", "ab", "", "under_score"):
        with pytest.raises(InvalidRequest, match="bucket"):
            store.run(GetObject(name, "a"))


# --- pages --------------------------------------------------------------------------------------------------


def test_lists_keys_with_a_prefix_in_order_and_pages(store: Store) -> None:
    bucket = store.create_bucket()
    for key in ("a/3", "a/1", "a/2", "ab", "b/1", "a/22"):
        store.run(PutObject(bucket, key, key.encode()))
    first = store.run(ListObjects(bucket, "a/", count=3))
    assert [each.key for each in first.objects] == ["a/1", "a/2", "a/22"]
    rest = store.run(ListObjects(bucket, "a/", count=3, cursor=first.cursor))
    assert ([each.key for each in rest.objects], rest.cursor) == (["a/3"], None)
    assert [each.key for each in store.run(ListObjects(bucket, "a/2")).objects] == ["a/2", "a/22"]
    assert [each.key for each in store.run(ListObjects(bucket, "a")).objects] == [
        "a/1",
        "a/2",
        "a/22",
        "a/3",
        "ab",
    ]


def test_a_page_that_ends_with_the_last_object_has_no_cursor(store: Store) -> None:
    bucket = store.create_bucket()
    for key in ("a", "b"):
        store.run(PutObject(bucket, key, b"1234"))
    page = store.run(ListObjects(bucket, count=2))
    assert page.cursor is None
    assert [each.bytes for each in page.objects] == [4, 4]
    assert page.objects[0].put_at == store.run(HeadObject(bucket, "a")).put_at


def test_nothing_to_list_is_an_empty_page(store: Store) -> None:
    assert store.run(ListObjects(store.create_bucket(), "none/")).objects == ()


def test_rejects_an_invalid_page_size(store: Store) -> None:
    bucket = store.create_bucket()
    for count in (0, 1001):
        with pytest.raises(InvalidRequest, match="1 to 1000"):
            store.run(ListObjects(bucket, count=count))


# --- legal holds --------------------------------------------------------------------------------------------


def test_a_held_object_is_neither_deleted_nor_overwritten_until_the_hold_is_lifted(store: Store) -> None:
    bucket = store.create_bucket(holds=True)
    store.run(PutObject(bucket, "a", b"evidence", metadata={"k": "v"}))
    store.run(SetLegalHold(bucket, "a", True))
    assert store.run(HeadObject(bucket, "a")).held
    assert store.run(GetObject(bucket, "a")).info.held
    for operation in (DeleteObject(bucket, "a"), PutObject(bucket, "a", b"other")):
        with pytest.raises(ObjectHeld):
            store.run(operation)
    found = store.run(GetObject(bucket, "a"))
    assert (found.body, found.info.metadata) == (b"evidence", {"k": "v"})
    store.run(SetLegalHold(bucket, "a", False))
    assert not store.run(HeadObject(bucket, "a")).held
    store.run(DeleteObject(bucket, "a"))
    with pytest.raises(NotFound):
        store.run(HeadObject(bucket, "a"))


def test_deleted_object_does_not_reveal_an_older_version(store: Store) -> None:
    bucket = store.create_bucket(holds=True)
    store.run(PutObject(bucket, "a", b"first"))
    store.run(PutObject(bucket, "a", b"second"))
    store.run(DeleteObject(bucket, "a"))
    with pytest.raises(NotFound):
        store.run(GetObject(bucket, "a"))
    assert store.run(ListObjects(bucket)).objects == ()


def test_legal_hold_needs_a_bucket_with_holds(store: Store) -> None:
    bucket = store.create_bucket()
    store.run(PutObject(bucket, "a", b"x"))
    with pytest.raises(InvalidRequest):
        store.run(SetLegalHold(bucket, "a", True))


def test_missing_object_cannot_be_held(store: Store) -> None:
    with pytest.raises(NotFound):
        store.run(SetLegalHold(store.create_bucket(holds=True), "none", True))


def test_closed_store_refuses_operations() -> None:
    objects = open_memory_objects()
    objects.close()
    with pytest.raises(StoreClosed):
        Store("closed", objects, lambda bucket, key: None).run(GetObject("bucket", "a"))
