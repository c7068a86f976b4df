"""Declarations of buckets and object keys: keys from a record's own time and ids, and lifecycle rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Bucket, Rate, open_memory_stores, pattern
from holdfast.core.errors import AlreadyExists, DeclarationError, InvalidRequest
from holdfast.model.objects import ObjectKind, PutObject
from holdfast.operations.objects import BucketDefinition, CreateBucket, LifecycleRule
from tests.cases import all_cases

CREATED = datetime(2026, 11, 15, 23, 30, tzinfo=UTC)
TEMPLATE = "replay/{created_at:%Y/%m/%d}/{conversation_id}/{event_id}.json"
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)


def make_object_kind(template: str = TEMPLATE, **options: Any) -> ObjectKind:
    """Return a kind of object with this key template, in a bucket with legal holds."""
    return Bucket("archive", legal_holds=True).objects(template, content_type="application/json", **options)


def test_key_contains_the_creation_time_and_the_ids() -> None:
    key = make_object_kind().build_key(created_at=CREATED, conversation_id="c-1", event_id=42)
    assert key == "replay/2026/11/15/c-1/42.json"


def test_a_key_is_the_same_in_every_time_zone() -> None:
    elsewhere = CREATED.astimezone(timezone(timedelta(hours=9)))
    keys = {
        make_object_kind().build_key(created_at=each, conversation_id="c", event_id="e")
        for each in (CREATED, elsewhere)
    }
    assert keys == {"replay/2026/11/15/c/e.json"}


@pytest.mark.parametrize("created_at", [datetime(2026, 11, 15), "2026-11-15", 1_763_200_000])
def test_a_time_without_its_zone_is_refused(created_at: Any) -> None:
    with pytest.raises(InvalidRequest, match="time zone"):
        make_object_kind().build_key(created_at=created_at, conversation_id="c", event_id="e")


@given(conversation=IDS, event=IDS)
def test_id_cannot_escape_its_key_segment(conversation: str, event: str) -> None:
    steps = (
        make_object_kind()
        .build_key(created_at=CREATED, conversation_id=conversation, event_id=event)
        .split("/")
    )
    assert len(steps) == 6
    assert not {"", ".", ".."} & set(steps)


@given(one=st.tuples(IDS, IDS), other=st.tuples(IDS, IDS), divider=st.sampled_from("/_.~-"))
def test_two_records_never_share_a_key_with_any_separator(
    one: tuple[str, str], other: tuple[str, str], divider: str
) -> None:
    made = make_object_kind(f"{{service}}{divider}{{event_id}}.json")
    keys = {made.build_key(service=ids[0], event_id=ids[1]) for ids in (one, other)}
    assert len(keys) == len({one, other})


def test_creation_time_may_appear_several_times() -> None:
    trail = make_object_kind(
        "{created_at:%Y%m}/{created_at:%Y%m%d}/{service}/{created_at:%H}/{id}_{uuid}.json"
    )
    key = trail.build_key(created_at=CREATED, service="passparser", id="PAGW-01_X", uuid="6f1a-2b")
    assert key == "202611/20261115/passparser/23/PAGW-01%5FX_6f1a-2b.json"
    assert trail.prefix == ""
    assert trail.build_prefix(created_at=CREATED, service="passparser") == "202611/20261115/passparser/23/"


@all_cases("value", ["", True, None, 1.5, CREATED, "\ud800"])
def test_rejects_an_invalid_id(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="event_id"):
        make_object_kind().build_key(created_at=CREATED, conversation_id="c", event_id=value)


def test_missing_and_unknown_fields_are_refused_by_name() -> None:
    with pytest.raises(InvalidRequest, match="created_at, event_id"):
        make_object_kind().build_key(conversation_id="c")
    with pytest.raises(InvalidRequest, match="event. Expected created_at, conversation_id, event_id"):
        make_object_kind().get(created_at=CREATED, conversation_id="c", event="e")


def test_a_key_that_is_too_long_for_s3_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="1024"):
        make_object_kind().build_key(created_at=CREATED, conversation_id="c", event_id="ü" * 200)


def test_listing_uses_the_first_fields_as_prefix() -> None:
    assert make_object_kind().build_prefix() == "replay/"
    assert make_object_kind().build_prefix(created_at=CREATED) == "replay/2026/11/15/"
    assert make_object_kind().build_prefix(created_at=CREATED, conversation_id="c") == "replay/2026/11/15/c/"
    with pytest.raises(InvalidRequest, match="event_id requires created_at, conversation_id"):
        make_object_kind().list_objects(event_id="e")


@all_cases(
    "template",
    [
        "",
        "/a/{id}",
        "a/{id}/",
        "a//{id}",
        "a/../{id}",
        "a/{one}x{two}",
        "a/{one}{two}",
        "a/{0}",
        "a/{id!r}",
        "a/{id:>8}",
        "a/{created_at}",
        "a/{created_at:%B}",
        "a/{created_at:%Y//%m}",
        "a/{id.name}",
        "a/{count}",
        "a/{id",
        "a/{{id}}",
        "a\n{id}",
    ],
)
def test_rejects_an_ambiguous_template(template: str) -> None:
    with pytest.raises(DeclarationError):
        make_object_kind(template)


def test_the_field_of_the_creation_time_may_have_another_name() -> None:
    made = make_object_kind("a/{sent_at:%Y}/{id}", created_field="sent_at")
    assert made.build_key(sent_at=CREATED, id="x") == "a/2026/x"


def test_lifetime_becomes_a_lifecycle_rule_for_the_key_prefix() -> None:
    bucket = Bucket("archive", encryption="kms", kms_key="alias/archive", legal_holds=True)
    bucket.objects(TEMPLATE, content_type="application/json", lifetime_days=30)
    bucket.objects("forever/{id}", content_type="text/plain")
    assert bucket.definition("prod") == BucketDefinition(
        name="archive-prod",
        encryption="kms",
        kms_key="alias/archive",
        lifecycle=(LifecycleRule(prefix="replay/", days=30),),
        holds=True,
    )


def test_kinds_of_one_lifetime_whose_keys_begin_with_the_time_share_a_rule() -> None:
    bucket = Bucket("requests", legal_holds=True)
    for name in ("original", "parsed"):
        bucket.objects(
            f"{{created_at:%Y%m}}/{{id}}/{name}.json", content_type="application/json", lifetime_days=2557
        )
    bucket.objects("kept/{id}", content_type="text/plain", lifetime_days=2557)
    assert bucket.definition("dev").lifecycle == (LifecycleRule(prefix="", days=2557),)


def _name_by_region(environment: str) -> str:
    """Return the bucket's name in this environment."""
    return f"acme-{environment}-phi-useast{1 if environment in ('preprod', 'prod') else 2}"


@pytest.mark.proves("PG-29")
@pytest.mark.proves("PG-X17")
def test_bucket_name_may_use_a_custom_function() -> None:
    bucket = Bucket(
        "requests", encryption="kms", kms_key="alias/acme-{environment}", physical=_name_by_region
    )
    made = bucket.objects("{id}", content_type="text/plain")
    for environment, name in (("dev", "acme-dev-phi-useast2"), ("prod", "acme-prod-phi-useast1")):
        definition, put = bucket.definition(environment), made.put(b"x", id="a").build_request(environment)
        assert (definition.name, definition.kms_key) == (name, f"alias/acme-{environment}")
        assert (put.bucket, put.kms_key) == (name, f"alias/acme-{environment}")
    assert (bucket.definition("").name, bucket.definition("").kms_key) == ("requests", "alias/acme")


def test_rejects_a_bucket_name_that_s3_refuses() -> None:
    with pytest.raises(DeclarationError, match="environment"):
        Bucket("requests", physical=str.upper).physical_name("dev")


@pytest.mark.parametrize("other", ["replay/{id}", "replay/kept/{id}", "{id}"])
def test_kinds_that_may_share_a_key_must_share_a_lifetime(other: str) -> None:
    bucket = Bucket("archive")
    bucket.objects(TEMPLATE, content_type="application/json", lifetime_days=30)
    with pytest.raises(DeclarationError, match="same lifetime"):
        bucket.objects(other, content_type="text/plain")
    bucket.objects(other, content_type="text/plain", lifetime_days=30)


@all_cases("name", ["Upper", "a", "under_score", "a" * 51, "-a-", "dots.in.it"])
def test_rejects_a_bucket_that_s3_refuses(name: str) -> None:
    with pytest.raises(DeclarationError, match="Invalid bucket name"):
        Bucket(name)


@pytest.mark.parametrize("environment", ["Prod", "my_env", "a" * 60])
def test_rejects_an_environment_that_s3_refuses(environment: str) -> None:
    with pytest.raises(DeclarationError, match="environment"):
        Bucket("archive").physical_name(environment)


def test_rejects_a_kms_key_without_kms_and_an_unknown_encryption() -> None:
    with pytest.raises(DeclarationError, match="kms"):
        Bucket("archive", kms_key="alias/x")
    with pytest.raises(DeclarationError, match="encryption"):
        Bucket("archive", encryption="none")  # type: ignore[arg-type]


def test_legal_hold_needs_a_bucket_with_holds() -> None:
    made = Bucket("archive").objects("a/{id}", content_type="text/plain")
    with pytest.raises(DeclarationError, match="holds=True"):
        made.set_legal_hold(True, id="x")


def test_rejects_a_lifetime_of_zero_days() -> None:
    with pytest.raises(DeclarationError, match="1 or more"):
        make_object_kind(lifetime_days=0)


archive = Bucket("archive")
notes = archive.objects("notes/{created_at:%Y/%m}/{id}.txt", content_type="text/plain")


@pattern("O1", "Keep a note", rate=Rate(per="note"), example=("n-1", b"text"))
def keep(id: str, body: bytes) -> PutObject:
    return notes.put(body, created_at=CREATED, id=id, metadata={"kind": "note"})


async def test_pattern_puts_once_and_finds_its_object() -> None:
    async with open_memory_stores() as stores:
        await stores.engines.get("objects").run(CreateBucket(archive.definition("")))
        operation = keep("n-1", b"private")
        assert (operation.pattern, operation.kind, operation.resource) == ("O1", "PutObject", "archive")
        assert operation.writes and "private" not in repr(operation)
        await stores.run(operation)
        with pytest.raises(AlreadyExists):
            await stores.run(keep("n-1", b"another"))
        found = await stores.run(notes.get(created_at=CREATED, id="n-1"))
        assert (found.body, found.info.content_type) == (b"private", "text/plain")
        assert (await stores.run(notes.head(created_at=CREATED, id="n-1"))).metadata == {"kind": "note"}
        adopted = await stores.run(notes.get_or_put(b"another", created_at=CREATED, id="n-1"))
        assert (adopted.body, adopted.is_adopted, adopted.info) == (b"private", True, found.info)
        page = await stores.run(notes.list_objects(created_at=CREATED))
        assert [each.key for each in page.objects] == ["notes/2026/11/n-1.txt"]
        await stores.run(notes.delete(created_at=CREATED, id="n-1"))
        assert (await stores.run(notes.list_objects())).objects == ()
