"""Objects on their pages: listed by prefix, their properties, and their content once it is revealed."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator

import pytest

from holdfast import Stores
from holdfast.console.browser import object_views
from holdfast.console.browser.addresses import build_bucket_url, build_object_url
from holdfast.console.browser.object_views import format_content
from holdfast.operations.objects import PutObject
from tests.console_client import ConsoleClient, open_console_client

from .test_item_pages import NEXT, follow_reveal, list_audit
from .warehouse import NAME, labels, open_warehouse, parcels

BUCKET = "warehouse-parcels"
KEY = "labels/o-1.json"
URL = build_object_url(NAME, BUCKET, KEY)
BODY = json.dumps({"to": "Ada, 12 Example Street"}).encode()


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_warehouse() as opened:
        await put_object(opened, KEY, BODY)
        yield opened


@pytest.fixture
async def client(stores: Stores) -> AsyncIterator[ConsoleClient]:
    async with open_console_client(stores) as opened:
        yield opened


async def put_object(stores: Stores, key: str, body: bytes) -> None:
    request = PutObject(
        bucket=parcels.physical_name(stores.environment), key=key, body=body, content_type="application/json"
    )
    await stores.engines.get("objects").run(request)


async def test_lists_objects_by_prefix_page_by_page(stores: Stores, client: ConsoleClient) -> None:
    for number in range(60):
        await put_object(stores, f"labels/p-{number:02}.json", b"{}")

    first = await client.get(build_bucket_url(NAME, BUCKET, prefix="labels/p-"))
    assert "labels/p-49.json" in first
    assert KEY not in first
    path = NEXT.search(first)
    assert path is not None
    second = await client.get(path[1])
    assert "labels/p-59.json" in second
    assert "labels/p-49.json" not in second
    assert "No key begins with" in await client.get(build_bucket_url(NAME, BUCKET, prefix="other/"))


async def test_shows_properties_and_no_content(client: ConsoleClient) -> None:
    page = await client.get(URL)

    assert all(each in page for each in ("SHA-256", "after 30 days", labels.template, f"{len(BODY)} B"))
    assert "Example Street" not in page


async def test_shows_content_once_it_is_revealed_and_records_that(client: ConsoleClient) -> None:
    page, _ = await follow_reveal(client, URL)

    assert "Ada, 12 Example Street" in page
    (entry,) = await list_audit(client)
    assert (entry.action, entry.system) == ("reveal", NAME)
    assert KEY not in str(entry.model_dump())


async def test_does_not_read_an_object_that_is_too_large(
    client: ConsoleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_views, "MAX_READ_BYTES", 10)

    page, _ = await follow_reveal(client, URL)

    assert "larger than" in page
    assert "Example Street" not in page


async def test_an_object_that_is_not_there_is_not_found(client: ConsoleClient) -> None:
    await client.get(build_object_url(NAME, BUCKET, "labels/none.json"), 404)
    await client.get(build_bucket_url(NAME, "none"), 404)


@pytest.mark.parametrize(
    ("body", "form", "shown"),
    [
        (b'{"a": [1]}', "json", '"a": ['),
        (b"{not json", "text", "{not json"),
        ("ünïcode".encode(), "text", "ünïcode"),
        (b"\x89PNG\x00\x01", "hex", "89 50 4e 47 00 01"),
        (b"\xff\xfe", "hex", "ff fe"),
        (b"", "text", ""),
    ],
)
def test_content_is_json_text_or_hexadecimal(body: bytes, form: str, shown: str) -> None:
    found = format_content(body)

    assert (found.form, found.is_whole) == (form, True)
    assert shown in found.text


def test_long_content_is_cut() -> None:
    for body, form in (("ü" * 200_000).encode(), "text"), (bytes(range(256)) * 1000, "hex"):
        found = format_content(body)
        assert (found.form, found.is_whole) == (form, False)
        assert len(found.text) < 70_000
    assert re.match(r"0{8}  00 01 02", format_content(bytes(range(256))).text)
