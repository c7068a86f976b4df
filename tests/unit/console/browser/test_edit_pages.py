"""Editing and deleting through the pages: the review, the write with its audit, and lost races."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from holdfast import Stores
from holdfast.config.settings import Settings
from holdfast.console.app import build_console_app
from holdfast.console.browser import edit_routes, edits
from holdfast.console.browser.addresses import build_item_url
from holdfast.console.browser.edits import ItemPlace, Outcome
from holdfast.console.model import CONSOLE
from holdfast.operations.values import Item
from tests.console_client import USER_NAME, ConsoleClient, open_console_client

from .test_item_pages import list_audit
from .warehouse import CIPHERTEXT, NAME, build_customer, build_order, open_warehouse, put, read

KEY: Item = {"PK": "ORDER#o-1", "SK": "ORDER"}
URL = build_item_url(NAME, "Stock", KEY)
EDIT = build_item_url(NAME, "Stock", KEY, "edit")
DELETE = build_item_url(NAME, "Stock", KEY, "delete")
ON = replace(Settings(), console_edits="on")
NAMES = ("count", "note", "contact")
SEEN = re.compile(r'name=":seen" value="([^"]+)"')


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_warehouse() as opened:
        await put(opened, build_order(1, count=1, note="old"))
        yield opened


@pytest.fixture
async def client(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores, settings=ON) as opened:
        yield opened


async def read_seen(client: ConsoleClient, url: str = EDIT) -> str:
    """Open the form and return what it says the item was."""
    found = SEEN.search(await client.get(url))
    assert found is not None
    return found[1]


async def test_an_edit_is_reviewed_and_then_written_with_its_audit_entry(
    stores: Stores, client: ConsoleClient
) -> None:
    seen = await read_seen(client)

    review = await client.post(EDIT, 200, **{":seen": seen, "note": "new", "count": "5"})
    assert "Nothing is written yet" in review
    assert all(each in review for each in ("old", "new", ">5<"))
    assert (await read(stores, KEY) or {})["note"] == "old"

    page = await client.post(EDIT, 303, **{":seen": seen, ":step": "save", "note": "new", "count": "5"})
    assert "Saved. Changed: count, note." in page
    stored = await read(stores, KEY) or {}
    assert (stored["note"], stored["count"], stored["version"]) == ("new", 5, 2)
    (entry,) = await list_audit(client)
    assert (entry.action, entry.user, entry.system) == ("edit", USER_NAME, NAME)
    assert entry.parsed_payload == {"attributes": ["count", "note"]}
    assert "new" not in entry.payload
    assert entry.target is not None
    assert "o-1" not in entry.target


async def test_problems_are_shown_at_their_fields_with_what_was_typed(
    stores: Stores, client: ConsoleClient
) -> None:
    seen = await read_seen(client)

    page = await client.post(EDIT, 422, **{":seen": seen, "count": "many", "note": "kept"})

    assert "Invalid count 'many'" in page
    assert 'aria-invalid="true"' in page
    assert 'value="kept"' in page
    assert (await read(stores, KEY) or {})["note"] == "old"


async def test_a_lost_race_shows_both_versions_and_writes_nothing(
    stores: Stores, client: ConsoleClient
) -> None:
    seen = await read_seen(client)
    await put(stores, build_order(1, count=9, note="theirs"))

    page = await client.post(EDIT, 409, **{":seen": seen, ":step": "save", "note": "mine", "count": "1"})

    assert all(each in page for each in ("theirs", "mine", "another writer", "Edit the item as it is now"))
    assert (await read(stores, KEY) or {})["note"] == "theirs"
    assert await list_audit(client) == []


async def test_a_conflict_tells_the_changes_of_both_apart(stores: Stores, client: ConsoleClient) -> None:
    seen = await read_seen(client)
    shown = {":seen": seen, "count": "1", "note": "mine", "contactPhone": "", "state": "placed"}
    await put(stores, build_order(1, count=9, note="old", contact="12"))

    page = await client.post(EDIT, 409, **shown, **{":step": "save"})

    rows = {name: page.partition(f'<th scope="row">{name}</th>')[2].partition("</tr>")[0] for name in NAMES}
    assert ("another writer" in rows["count"], ">you<" in rows["count"]) == (True, False)
    assert all(each in rows["count"] for each in (">9<", ">1<"))
    assert ("another writer" in rows["note"], ">you<" in rows["note"]) == (False, True)
    assert ("another writer" in rows["contact"], ">you<" in rows["contact"]) == (True, False)


async def test_a_race_between_the_last_read_and_the_write_is_lost_too(
    stores: Stores, client: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def save_late(place: ItemPlace, *rest: object) -> Outcome:
        await put(stores, build_order(1, count=9, note="theirs"))
        return await edits.save(place, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(edit_routes, "save", save_late)
    seen = await read_seen(client)

    page = await client.post(EDIT, 409, **{":seen": seen, ":step": "save", "note": "mine"})

    assert "theirs" in page
    assert (await read(stores, KEY) or {})["note"] == "theirs"


async def test_an_attribute_that_another_writer_added_is_a_change(
    stores: Stores, client: ConsoleClient
) -> None:
    seen = await read_seen(client)
    await put(stores, build_order(1, count=1, note="old") | {"extra": "theirs"})

    page = await client.post(EDIT, 409, **{":seen": seen, ":step": "save", "note": "mine"})

    assert "extra" in page


async def test_an_item_deleted_meanwhile_is_not_created_again(stores: Stores, client: ConsoleClient) -> None:
    seen = await read_seen(client)
    await client.post(DELETE, 303, **{":seen": await read_seen(client, URL)})

    await client.post(EDIT, 404, **{":seen": seen, ":step": "save", "note": "mine"})

    assert await read(stores, KEY) is None


async def test_deletes_exactly_what_was_shown(stores: Stores, client: ConsoleClient) -> None:
    seen = await read_seen(client, URL)
    await put(stores, build_order(1, count=9, note="theirs"))
    assert "It was not deleted." in await client.post(DELETE, 409, **{":seen": seen})
    assert await read(stores, KEY) is not None

    assert "Deleted." in await client.post(DELETE, 303, **{":seen": await read_seen(client, URL)})
    assert await read(stores, KEY) is None
    (entry,) = await list_audit(client)
    assert entry.action == "delete"
    assert "note" in entry.parsed_payload["attributes"]


async def test_an_unchanged_form_writes_nothing(stores: Stores, client: ConsoleClient) -> None:
    before = await read(stores, KEY)

    page = await client.post(EDIT, 303, **{":seen": await read_seen(client), ":step": "save", "note": "old"})

    assert "Nothing was changed" in page
    assert await read(stores, KEY) == before


async def test_masked_values_stay_as_they_are_stored(stores: Stores, client: ConsoleClient) -> None:
    await put(stores, build_customer(1, given_name="Ada"))
    url = build_item_url(NAME, "Stock", {"PK": "CUSTOMER#c-1", "SK": "CUSTOMER"}, "edit")
    form = await client.get(url)
    assert "It is masked. Reveal the item to edit it." in form
    assert "ada1@example.org" not in form

    fields = {":seen": await read_seen(client, url), "new:name": "extra", "new:value": '{"S": "x"}'}
    review = await client.post(url, 200, **fields)
    assert "ada1@example.org" not in review
    await client.post(url, 303, **fields, **{":step": "save"})

    stored = await read(stores, {"PK": "CUSTOMER#c-1", "SK": "CUSTOMER"}) or {}
    assert (stored["email"], stored["extra"]) == ("ada1@example.org", "x")


# --- refused ------------------------------------------------------------------------------------------------


async def test_edits_are_off_by_default(stores: Stores) -> None:
    async with open_console_client(stores) as client:
        assert "console_edits" in await client.get(URL)
        assert "console_edits" in await client.get(EDIT, 403)
        await client.post(EDIT, 403, **{":seen": "", "note": "new"})
        await client.post(DELETE, 403, **{":seen": ""})


async def test_needs_the_role_editor(stores: Stores) -> None:
    async with open_console_client(
        stores, roles=("viewer", "operator", "other:editor"), settings=ON
    ) as client:
        assert "needs the role editor" in await client.get(URL)
        await client.get(EDIT, 403)
        await client.post(DELETE, 403, **{":seen": ""})


@pytest.mark.parametrize(
    "item",
    [
        {"PK": "EVENTS#o-1", "SK": "2026-11-18T09:00:00Z#1", "payload": "{}"},
        {"PK": "RECEIPT#o-1", "SK": "RECEIPT", "text": "paid"},
        {"PK": "SHIFT#1", "SK": "SHIFT"},
        {"PK": "ACCOUNT#1", "SK": "ACCOUNT", "keyEncrypted": CIPHERTEXT},
    ],
)
async def test_refuses_records_that_others_rely_on(stores: Stores, client: ConsoleClient, item: Item) -> None:
    await put(stores, item)
    key = {"PK": item["PK"], "SK": item["SK"]}

    assert "Not editable here" in await client.get(build_item_url(NAME, "Stock", key))
    for part in ("edit", "delete"):
        await client.post(build_item_url(NAME, "Stock", key, part), 403, **{":seen": ""})
    assert await read(stores, key) == item


@pytest.mark.parametrize("seen", ["", "nonsense", "gqFhgA=="])
async def test_refuses_a_form_that_does_not_say_what_it_showed(client: ConsoleClient, seen: str) -> None:
    assert "Load the item again" in await client.post(EDIT, 400, **{":seen": seen, "note": "new"})


async def test_writes_the_item_and_its_audit_entry_in_one_transaction(stores: Stores) -> None:
    own = stores.for_system(CONSOLE)
    app = build_console_app(ON, own, [stores], None)  # type: ignore[arg-type]
    assert app.state.console.own.tables is stores.tables
