"""Declarations of cached values and counters, on the in-memory cache: keys, operations, hits and misses."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast import Rate, open_memory_stores, pattern
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.cache import (
    LOCK_SUFFIX,
    MAX_KEY_BYTES,
    CachedValue,
    CacheHit,
    GetCached,
    KeyTemplate,
    WindowCounter,
)
from holdfast.operations.cache import PutValue
from tests.cases import all_cases


class Payer(BaseModel):
    name: str
    endpoints: tuple[str, ...] = ()


class Provider(BaseModel):
    name: str = "Ada"


payers = CachedValue("payer:{payer_id}", Payer, lifetime_s=300)
ACME = Payer(name="Acme", endpoints=("https://acme.example/fhir",))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-38")
@pytest.mark.proves("PG-39")
@pytest.mark.proves("PG-40")
@pytest.mark.proves("PG-55")
def test_keys_match_the_requirements() -> None:
    for template, fields, key in (
        ("oauth:{payer_id}", {"payer_id": "BCBS-01"}, "oauth:BCBS-01"),
        (
            "ratelimit:{tenant}:{window}",
            {"tenant": "clinic-1", "window": 29386666},
            "ratelimit:clinic-1:29386666",
        ),
        ("provider:{npi}", {"npi": "1234567893"}, "provider:1234567893"),
        ("payer:{payer_id}", {"payer_id": "BCBS-01"}, "payer:BCBS-01"),
        ("session:{tenant}:{id}", {"tenant": "clinic-1", "id": "s-1"}, "session:clinic-1:s-1"),
    ):
        assert KeyTemplate(template).build_key(**fields) == key


@given(first=st.tuples(TEXTS, TEXTS), second=st.tuples(TEXTS, TEXTS))
def test_no_two_pairs_of_values_share_a_key(first: tuple[str, str], second: tuple[str, str]) -> None:
    keys = KeyTemplate("session:{tenant}:{id}")
    made = [keys.build_key(tenant=tenant, id=id) for tenant, id in (first, second)]
    assert (made[0] == made[1]) == (first == second)


@given(tenant=TEXTS, id=TEXTS)
def test_parts_of_a_key_decode_to_the_given_values(tenant: str, id: str) -> None:
    key = KeyTemplate("session:{tenant}:{id}").build_key(tenant=tenant, id=id)
    assert [unquote(part) for part in key.split(":")] == ["session", tenant, id]
    assert key.isascii() and key.isprintable() and not key.endswith(LOCK_SUFFIX)


@all_cases(
    ("fields", "message"),
    [
        ({}, "payer_id"),
        ({"payer_id": "x", "tenant": "y"}, "tenant"),
        ({"payer_id": ""}, "non-empty"),
        ({"payer_id": True}, "an integer"),
        ({"payer_id": None}, "an integer"),
        ({"payer_id": "\ud800"}, "valid Unicode text"),
        ({"payer_id": "x" * MAX_KEY_BYTES}, "Shorten"),
    ],
)
def test_rejects_an_invalid_key(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        payers.build_key(**fields)


@all_cases(
    "template",
    [
        "",
        "{id}",
        "payer{id}",
        "payer:{id",
        "payer:{a}{b}",
        "payer:{a}x{b}",
        "payer:{a}:{a}",
        "payer:{}",
        "payer:{id!r}",
        "payer:{id:>8}",
        "payer:{{id}}",
        "pay er:{id}",
        "payer%3A{id}",
        "payer:{lifetime_s}",
        "payer:{0}",
    ],
)
def test_rejects_an_ambiguous_template(template: str) -> None:
    with pytest.raises(DeclarationError):
        CachedValue(template, Payer, lifetime_s=60)


@pytest.mark.parametrize("lifetime_s", [0, -1, float("inf"), float("nan"), 32 * 86_400])
def test_rejects_an_invalid_lifetime_on_declaration(lifetime_s: float) -> None:
    with pytest.raises(DeclarationError, match="lifetime"):
        CachedValue("payer:{payer_id}", Payer, lifetime_s=lifetime_s)
    with pytest.raises(DeclarationError, match="lifetime"):
        WindowCounter("ratelimit:{tenant}:{window}", window_s=lifetime_s)


def test_rejects_values_of_another_type_and_counters_without_a_window() -> None:
    with pytest.raises(DeclarationError, match="Pydantic"):
        CachedValue("payer:{payer_id}", dict, lifetime_s=60)  # type: ignore[type-var]
    with pytest.raises(DeclarationError, match="window"):
        WindowCounter("ratelimit:{tenant}", window_s=60)
    with pytest.raises(InvalidRequest, match="Payer"):
        payers.put(Provider(), payer_id="p-1")  # type: ignore[arg-type]


@pattern("C1", "A payer", rate=Rate("request"), example=("p-1",))
def payer(payer_id: str) -> GetCached[Payer]:
    return payers.get(payer_id=payer_id)


def test_operation_names_its_store_kind_template_and_pattern() -> None:
    found = payer.build_example()
    assert (found.store, found.kind, found.resource, found.pattern) == (
        "cache",
        "GET",
        "payer:{payer_id}",
        "C1",
    )
    assert found.table is None and not found.writes
    windows = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)
    fields = {"tenant": "t", "window": 1}
    written = {
        operation.kind: operation.writes
        for operation in (
            payers.put(ACME, payer_id="p"),
            payers.delete(payer_id="p"),
            payers.extend(payer_id="p"),
            windows.count(**fields),  # type: ignore[arg-type]
        )
    }
    assert written == {"SET": True, "DEL": True, "PEXPIRE": True, "INCRBY": True}
    assert windows.read(**fields).writes is False  # type: ignore[arg-type]


def test_environments_that_share_a_server_do_not_share_keys() -> None:
    operation = payer.build_example()
    assert operation.build_request("prod").key == "prod:payer:p-1"
    assert operation.build_request("").key == "payer:p-1"
    assert operation.build_request("prod").pattern == "C1"


def test_operation_repr_shows_neither_keys_nor_values() -> None:
    shown = repr(payers.put(ACME, payer_id="p-secret")) + repr(
        payers.unlock(token="t-secret", payer_id="p-secret")
    )
    assert "secret" not in shown and "Acme" not in shown


def test_window_is_numbered_by_its_interval() -> None:
    windows = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)
    assert [windows.get_window(moment) for moment in (0, 59.9, 60, 119.9, 1763200000)] == [
        0,
        0,
        1,
        1,
        29386666,
    ]


async def test_reads_back_a_put_value() -> None:
    async with open_memory_stores() as stores:
        assert await stores.run(payer("p-1")) is None
        assert await stores.run(payers.put(ACME, payer_id="p-1")) is True
        assert await stores.run(payer("p-1")) == ACME
        assert await stores.run(payers.peek(payer_id="p-1")) == CacheHit(ACME)
        assert await stores.run(payers.put(ACME, only_if_absent=True, payer_id="p-1")) is False
        assert await stores.run(payers.delete(payer_id="p-1")) is True
        assert await stores.run(payer("p-1")) is None


async def test_distinguishes_a_cached_absence_from_a_miss() -> None:
    async with open_memory_stores() as stores:
        assert await stores.run(payers.peek(payer_id="p-1")) is None
        await stores.run(payers.put_absence(lifetime_s=30, payer_id="p-1"))
        assert await stores.run(payers.peek(payer_id="p-1")) == CacheHit(None)
        assert await stores.run(payers.get(payer_id="p-1")) is None


@all_cases("body", [b"", b"{", b"[]", b'{"title": "Acme"}', b'{"name": 1}', b"\xff"])
async def test_unreadable_value_is_a_miss(body: bytes) -> None:
    async with open_memory_stores() as stores:
        await stores.engines.get("cache").run(PutValue(key="payer:p-1", value=body, lifetime_s=60))
        assert await stores.run(payers.get(payer_id="p-1")) is None
        assert await stores.run(payers.peek(payer_id="p-1")) is None


async def test_only_the_holding_token_releases_a_lock() -> None:
    async with open_memory_stores() as stores:
        taken = [await stores.run(payers.lock(token=token, lifetime_s=10, payer_id="p-1")) for token in "ab"]
        assert taken == [True, False]
        assert await stores.run(payers.unlock(token="b", payer_id="p-1")) is False
        assert await stores.run(payers.peek(payer_id="p-1")) is None
        assert await stores.run(payers.unlock(token="a", payer_id="p-1")) is True
        assert await stores.run(payers.lock(token="b", lifetime_s=10, payer_id="p-1")) is True


async def test_memory_stores_have_separate_caches() -> None:
    async with open_memory_stores() as one, open_memory_stores() as another:
        await one.run(payers.put(ACME, payer_id="p-1"))
        assert await one.run(payer("p-1")) == ACME
        assert await another.run(payer("p-1")) is None
