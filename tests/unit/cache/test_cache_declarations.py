"""What a system declares of a cache: keys whose fields stay in their place, values that are read or are not there."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from holdfast import CachedValue, CacheHit, GetCached, Rate, WindowCounter, open_memory_stores, pattern
from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.cache import KEY_BYTES_MAX, LOCK_SUFFIX, KeyTemplate
from holdfast.operations.cache import PutValue


class Payer(BaseModel):
    name: str
    endpoints: tuple[str, ...] = ()


class Provider(BaseModel):
    name: str = "Ada"


payers = CachedValue("payer:{payer_id}", Payer, lifetime_s=300)
ACME = Payer(name="Acme", endpoints=("https://acme.example/fhir",))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


# --- keys ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-38")
@pytest.mark.proves("PG-39")
@pytest.mark.proves("PG-40")
@pytest.mark.proves("PG-55")
def test_keys_are_those_of_the_document() -> None:
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
def test_a_value_is_read_back_from_its_place_and_cannot_leave_it(tenant: str, id: str) -> None:
    key = KeyTemplate("session:{tenant}:{id}").build_key(tenant=tenant, id=id)
    assert [unquote(part) for part in key.split(":")] == ["session", tenant, id]
    assert key.isascii() and key.isprintable() and not key.endswith(LOCK_SUFFIX)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({}, "payer_id"),
        ({"payer_id": "x", "tenant": "y"}, "tenant"),
        ({"payer_id": ""}, "non-empty"),
        ({"payer_id": True}, "an integer"),
        ({"payer_id": None}, "an integer"),
        ({"payer_id": "\ud800"}, "valid Unicode text"),
        ({"payer_id": "x" * KEY_BYTES_MAX}, "Shorten"),
    ],
)
def test_a_key_that_cannot_be_made_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        payers.build_key(**fields)


@pytest.mark.parametrize(
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
def test_a_template_by_which_keys_could_meet_is_refused(template: str) -> None:
    with pytest.raises(DeclarationError):
        CachedValue(template, Payer, lifetime_s=60)


@pytest.mark.parametrize("lifetime_s", [0, -1, float("inf"), float("nan"), 32 * 86_400])
def test_a_lifetime_that_no_cache_takes_is_refused_when_it_is_declared(lifetime_s: float) -> None:
    with pytest.raises(DeclarationError, match="lifetime"):
        CachedValue("payer:{payer_id}", Payer, lifetime_s=lifetime_s)
    with pytest.raises(DeclarationError, match="lifetime"):
        WindowCounter("ratelimit:{tenant}:{window}", window_s=lifetime_s)


def test_what_is_kept_is_a_document_and_what_is_counted_has_a_window() -> None:
    with pytest.raises(DeclarationError, match="Pydantic"):
        CachedValue("payer:{payer_id}", dict, lifetime_s=60)  # type: ignore[type-var]
    with pytest.raises(DeclarationError, match="window"):
        WindowCounter("ratelimit:{tenant}", window_s=60)
    with pytest.raises(InvalidRequest, match="Payer"):
        payers.put(Provider(), payer_id="p-1")  # type: ignore[arg-type]


# --- operations ---------------------------------------------------------------------------------------------


@pattern("C1", "A payer", rate=Rate("request"), example=("p-1",))
def payer(payer_id: str) -> GetCached[Payer]:
    return payers.get(payer_id=payer_id)


def test_an_operation_says_its_store_its_kind_and_what_it_is_about() -> None:
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
    asked = payer.build_example()
    assert asked.build_request("prod").key == "prod:payer:p-1"
    assert asked.build_request("").key == "payer:p-1"
    assert asked.build_request("prod").pattern == "C1"


def test_neither_keys_nor_values_are_in_what_an_operation_shows_of_itself() -> None:
    shown = repr(payers.put(ACME, payer_id="p-secret")) + repr(
        payers.unlock(token="t-secret", payer_id="p-secret")
    )
    assert "secret" not in shown and "Acme" not in shown


def test_a_window_is_the_number_of_its_stretch_of_time() -> None:
    windows = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)
    assert [windows.get_window(moment) for moment in (0, 59.9, 60, 119.9, 1763200000)] == [
        0,
        0,
        1,
        1,
        29386666,
    ]


# --- values -------------------------------------------------------------------------------------------------


def test_a_value_comes_back_as_it_was_put() -> None:
    async def story() -> None:
        async with open_memory_stores() as stores:
            assert await stores.run(payer("p-1")) is None
            assert await stores.run(payers.put(ACME, payer_id="p-1")) is True
            assert await stores.run(payer("p-1")) == ACME
            assert await stores.run(payers.peek(payer_id="p-1")) == CacheHit(ACME)
            assert await stores.run(payers.put(ACME, only_if_absent=True, payer_id="p-1")) is False
            assert await stores.run(payers.delete(payer_id="p-1")) is True
            assert await stores.run(payer("p-1")) is None

    asyncio.run(story())


def test_an_absence_that_is_kept_is_told_from_what_is_not_known() -> None:
    async def story() -> None:
        async with open_memory_stores() as stores:
            assert await stores.run(payers.peek(payer_id="p-1")) is None
            await stores.run(payers.put_absence(lifetime_s=30, payer_id="p-1"))
            assert await stores.run(payers.peek(payer_id="p-1")) == CacheHit(None)
            assert await stores.run(payers.get(payer_id="p-1")) is None

    asyncio.run(story())


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"title": "Acme"}', b'{"name": 1}', b"\xff"])
def test_a_value_that_cannot_be_read_is_not_there(body: bytes) -> None:
    async def story() -> None:
        async with open_memory_stores() as stores:
            await stores.engines.get("cache").run(PutValue(key="payer:p-1", value=body, lifetime_s=60))
            assert await stores.run(payers.get(payer_id="p-1")) is None
            assert await stores.run(payers.peek(payer_id="p-1")) is None

    asyncio.run(story())


def test_a_lock_is_held_by_one_token_and_given_back_by_it_alone() -> None:
    async def story() -> None:
        async with open_memory_stores() as stores:
            taken = [
                await stores.run(payers.lock(token=token, lifetime_s=10, payer_id="p-1")) for token in "ab"
            ]
            assert taken == [True, False]
            assert await stores.run(payers.unlock(token="b", payer_id="p-1")) is False
            assert await stores.run(payers.peek(payer_id="p-1")) is None
            assert await stores.run(payers.unlock(token="a", payer_id="p-1")) is True
            assert await stores.run(payers.lock(token="b", lifetime_s=10, payer_id="p-1")) is True

    asyncio.run(story())


def test_each_stores_in_memory_have_a_cache_of_their_own() -> None:
    async def story() -> None:
        async with open_memory_stores() as one, open_memory_stores() as another:
            await one.run(payers.put(ACME, payer_id="p-1"))
            assert await one.run(payer("p-1")) == ACME
            assert await another.run(payer("p-1")) is None

    asyncio.run(story())
