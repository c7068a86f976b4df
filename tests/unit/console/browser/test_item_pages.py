"""The pages of tables and items: what they show, to whom, and what is recorded."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.console.browser.addresses import build_item_url, build_table_url
from holdfast.console.model import AUDIT, AuditPhase, ConsoleAudit
from tests.console_client import USER_NAME, ConsoleClient, open_console_client

from .warehouse import (
    CIPHERTEXT,
    NAME,
    SYSTEM,
    HandClock,
    build_customer,
    build_order,
    open_warehouse,
    put,
)

CUSTOMER = build_customer(1, given_name="Ada")
CUSTOMER_KEY = {"PK": "CUSTOMER#c-1", "SK": "CUSTOMER"}
CUSTOMER_URL = build_item_url(NAME, "Stock", CUSTOMER_KEY)
NEXT = re.compile(r'href="([^"]+)" rel="next"')
REVEAL = f"/data/{NAME}/reveal"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def stores(clock: HandClock) -> AsyncIterator[Stores]:
    async with open_warehouse(clock=clock) as opened:
        yield opened


@pytest.fixture
async def client(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores) as opened:
        yield opened


async def list_audit(client: ConsoleClient) -> list[ConsoleAudit]:
    """Return what was recorded, without the sign-in, and without intents: each has an outcome."""
    day = client.own.now().date().isoformat()
    page = await client.own.run(AUDIT.pattern_set.history(day, limit=100))
    return [each for each in page if each.action != "sign-in" and each.phase is not AuditPhase.INTENT]


async def test_lists_tables_with_their_stored_counts(stores: Stores, client: ConsoleClient) -> None:
    await put(stores, *(build_order(number) for number in range(7)), CUSTOMER)

    for path in ("/data", f"/data/{NAME}"):
        page = await client.get(path)
        assert "Orders, customers and the history of each order" in page
        assert re.search(r'data-label="Items">8<', page)
        assert "by-status" in page
        assert "expires by expiresAt" in page
        assert "warehouse-parcels" in page


async def test_a_table_that_does_not_exist_says_how_to_create_it() -> None:
    async with open_memory_stores(SYSTEM) as stores, open_console_client(stores) as client:
        assert "not created" in await client.get("/data")
        assert f"holdfast tables {NAME} --create" in await client.get(build_table_url(NAME, "Stock"))


async def test_pages_have_addresses_of_their_own(stores: Stores, client: ConsoleClient) -> None:
    await put(stores, *(build_order(number) for number in range(60)))
    first = await client.get_raw(build_table_url(NAME, "Stock"))

    path = NEXT.search(first)
    assert path is not None
    second = await client.get(path[1].replace("&amp;", "&"))

    found = re.compile(r">ORDER#o-\d+<")
    assert len(found.findall(first)) == len(found.findall(second)) == 25
    assert not set(found.findall(first)) & set(found.findall(second))


async def test_a_typed_page_names_attributes_and_entities_and_a_raw_one_has_tags(
    stores: Stores, client: ConsoleClient
) -> None:
    await put(stores, build_order(1, count=3), CUSTOMER, {"PK": "x", "SK": "y"})

    typed = await client.get(build_table_url(NAME, "Stock"))
    assert all(each in typed for each in ("Order", "Customer", "not declared", "placed_at"))
    only = await client.get(build_table_url(NAME, "Stock", partition="ORDER#o-1"))
    assert '<th scope="col">placed_at</th>' in only
    raw = await client.get(build_table_url(NAME, "Stock", partition="ORDER#o-1", view="raw"))
    assert re.search(r'"count": \{\s*"N": "3"', raw)


async def test_an_invalid_field_is_named_and_nothing_is_read(client: ConsoleClient) -> None:
    page = await client.get(build_table_url(NAME, "Notes", partition="twelve"))

    assert "Invalid value 'twelve': expected a number." in page
    assert "Nothing was read" in page


async def test_an_item_shows_keys_indexes_and_raw_form(stores: Stores, client: ConsoleClient) -> None:
    await put(stores, build_order(1, note="fragile"))
    url = build_item_url(NAME, "Stock", {"PK": "ORDER#o-1", "SK": "ORDER"})

    page = await client.get(url)
    assert all(each in page for each in ("ORDER#{order_id}", "stored as placedAt", "fragile", "Absent: "))
    index = build_table_url(NAME, "Stock", index="by-status", partition="placed").partition("?")[0]
    assert f"{index}?index=by-status&partition=placed" in page
    assert '"S": "fragile"' in await client.get(f"{url}&view=raw")


async def test_an_item_that_is_gone_leads_to_its_history(client: ConsoleClient) -> None:
    page = await client.get(CUSTOMER_URL, 404)

    assert "There is no item with this key now" in page
    assert "/item/history?key=" in page


async def test_refuses_the_key_of_another_table(client: ConsoleClient) -> None:
    token = CUSTOMER_URL.partition("key=")[2]

    assert "Open the item from its table" in await client.get(f"/data/{NAME}/Notes/item?key={token}", 400)
    await client.get(f"/data/{NAME}/Stock/item?key=nonsense", 400)
    await client.get(f"/data/{NAME}/Nothing", 404)


# --- personal data ------------------------------------------------------------------------------------------


async def test_personal_data_is_masked_on_every_page(stores: Stores, client: ConsoleClient) -> None:
    await put(stores, CUSTOMER)
    await put(stores, build_customer(1, given_name="Augusta"))
    history = build_item_url(NAME, "Stock", CUSTOMER_KEY, "history")

    for path in (
        build_table_url(NAME, "Stock"),
        build_table_url(NAME, "Stock", view="raw"),
        CUSTOMER_URL,
        f"{CUSTOMER_URL}&view=raw",
        history,
        f"/data/{NAME}/Stock/stream",
    ):
        page = await client.get(path)
        assert "CUSTOMER#c-1" in page or "c-1" in page
        assert not [each for each in ("ada1@example.org", "Augusta", '"Ada"', ">Ada<") if each in page], path


async def test_keys_of_an_index_are_masked_like_other_attributes(
    stores: Stores, client: ConsoleClient
) -> None:
    await put(stores, CUSTOMER)
    by_mail = build_table_url(NAME, "Stock", index="by-mail")
    history = build_item_url(NAME, "Stock", CUSTOMER_KEY, "history")
    for path in (by_mail, f"{by_mail}&view=raw", CUSTOMER_URL, history):
        page = await client.get(path)
        assert "CUSTOMER#c-1" in page
        personal = ("MAIL#ada1", "ada1@", "ada1%40", '"Ada"', ">Ada<")
        assert not [each for each in personal if each in page], path

    revealed, _ = await follow_reveal(client, CUSTOMER_URL)
    assert "MAIL#ada1@example.org" in revealed and "index=by-mail" in revealed


async def test_a_masked_sort_key_of_an_index_matches_is_and_no_other_test(
    stores: Stores, client: ConsoleClient
) -> None:
    await put(stores, CUSTOMER)
    known = {"index": "by-mail", "partition": "MAIL#ada1@example.org"}

    exact = await client.get(build_table_url(NAME, "Stock", **known, op="=", sort="Ada"))
    guessed = await client.get(build_table_url(NAME, "Stock", **known, op="begins_with", sort="A"))

    assert "CUSTOMER#c-1" in exact
    assert "CUSTOMER#c-1" not in guessed


async def test_the_address_of_the_next_page_has_no_masked_key_of_an_index(
    stores: Stores, client: ConsoleClient
) -> None:
    await put(stores, *(build_customer(number, given_name="Ada") for number in range(30)))
    first = await client.get(build_table_url(NAME, "Stock", index="by-mail"))
    found = NEXT.search(first)
    assert found is not None
    token = parse_qs(urlsplit(found[1]).query)["cursor"][0]
    assert b"@example.org" not in urlsafe_b64decode(token + "=" * (-len(token) % 4))

    second = await client.get(found[1])
    keys = [set(re.findall(r"CUSTOMER#c-\d+", page)) for page in (first, second)]
    assert [len(each) for each in keys] == [25, 5]
    assert not keys[0] & keys[1]


async def test_reveals_one_page_for_a_short_time_and_records_it(
    stores: Stores, client: ConsoleClient, clock: HandClock
) -> None:
    await put(stores, CUSTOMER, build_customer(2))
    csrf = await client.get(CUSTOMER_URL)
    assert "Reveal, and record it" in csrf

    revealed, url = await follow_reveal(client, CUSTOMER_URL)
    assert "ada1@example.org" in revealed
    (entry,) = await list_audit(client)
    assert (entry.action, entry.user, entry.system) == ("reveal", USER_NAME, NAME)
    assert entry.target is not None
    assert entry.target.startswith(f"/data/{NAME}/Stock/item ")
    assert "c-1" not in str(entry.model_dump())

    token = url.partition("revealed=")[2]
    other = build_item_url(NAME, "Stock", {"PK": "CUSTOMER#c-2", "SK": "CUSTOMER"})
    assert "ada2@example.org" not in await client.get(f"{other}&revealed={token}")
    assert "ada1@example.org" not in await client.get(f"{CUSTOMER_URL}&revealed=9999999999-00")
    clock.moment += 301
    assert "ada1@example.org" not in await client.get(url)


async def follow_reveal(client: ConsoleClient, target: str) -> tuple[str, str]:
    """Reveal a page and return it with its address."""
    system = target.split("/")[2]
    location = await client.post_for_location(f"/data/{system}/reveal", target=target)
    return await client.get(location), location


async def test_only_the_role_personal_reveals(stores: Stores) -> None:
    await put(stores, CUSTOMER)
    async with open_console_client(stores, roles=("viewer", "editor")) as client:
        assert "Reveal" not in (await client.get(CUSTOMER_URL)).replace("To reveal", "")
        await client.post(REVEAL, 403, target=CUSTOMER_URL)


@pytest.mark.parametrize("target", ["https://example.org/", "/data/other/Stock", "/account", "//x"])
async def test_a_reveal_leads_nowhere_else(client: ConsoleClient, target: str) -> None:
    await client.post(REVEAL, 400, target=target)


async def test_encrypted_content_is_not_shown_even_when_revealed(
    stores: Stores, client: ConsoleClient
) -> None:
    await put(stores, {"PK": "ACCOUNT#1", "SK": "ACCOUNT", "accountId": "1", "keyEncrypted": CIPHERTEXT})
    url = build_item_url(NAME, "Stock", {"PK": "ACCOUNT#1", "SK": "ACCOUNT"})

    revealed, _ = await follow_reveal(client, url)

    assert "encrypted" in revealed
    assert "SEZDMQ" not in revealed + await client.get(f"{url}&view=raw")


async def test_a_system_without_a_role_does_not_exist(stores: Stores) -> None:
    await put(stores, CUSTOMER)
    async with open_console_client(stores, roles=("other:viewer", "other:personal")) as client:
        assert "Stock" not in await client.get("/data")
        for path in (
            f"/data/{NAME}",
            build_table_url(NAME, "Stock"),
            CUSTOMER_URL,
            build_item_url(NAME, "Stock", CUSTOMER_KEY, "history"),
            f"/data/{NAME}/Stock/stream",
            f"/data/{NAME}/bucket:warehouse-parcels",
            f"/live?topic=stream-{NAME}-Stock",
        ):
            await client.get(path, 404)
