"""docs/guides/coming_from_pynamodb.md: the entity of the page reads what PynamoDB wrote, and writes it back.

`pynamodb_requests.json` has the requests that PynamoDB 6.1.0 sent for the program of the page, recorded by
`record_pynamodb`. They are replayed here, so that the tests do not need PynamoDB.
"""

from __future__ import annotations

import asyncio
import json
import runpy
from collections.abc import Iterator
from typing import Any, Final

import pytest

from holdfast import Stores
from holdfast.core.errors import ConditionFailed, NotFound
from holdfast.operations.tables import Scan
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.wire.dispatch import decode
from tests.docs import pages
from tests.docs.record_pynamodb import PAGE, RECORDING, hash_program, read_program

REQUESTS: Final = json.loads(RECORDING.read_text(encoding="utf-8"))["requests"]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the page's own program, and return its names."""
    script = tmp_path_factory.mktemp("page") / "page.py"
    blocks = (each for each in pages.parse_blocks(PAGE) if each.language == "python" and not each.note)
    script.write_text("\n".join(block.text for block in blocks), encoding="utf-8")
    return runpy.run_path(str(script))


@pytest.fixture
def tables() -> Iterator[EmbeddedTables]:
    with open_tables() as opened:
        yield opened


def replay(tables: EmbeddedTables, count: int = len(REQUESTS)) -> None:
    """Run the first `count` recorded requests."""
    for request in REQUESTS[:count]:
        _, operation = decode(request["target"], json.dumps(request["body"]).encode())
        try:
            tables.run_blocking(operation)
        except NotFound:
            # PynamoDB looks for the table before it creates it.
            assert request["target"].endswith("DescribeTable")


def read_items(tables: EmbeddedTables) -> list[Item]:
    return list(tables.run_blocking(Scan("orders")).items or ())


def test_recording_is_of_the_program_on_the_page() -> None:
    recording = json.loads(RECORDING.read_text(encoding="utf-8"))

    assert recording["program"] == hash_program(read_program()), "run `python -m tests.docs.record_pynamodb`"


def test_item_on_the_page_is_the_item_that_pynamodb_wrote(
    page: dict[str, Any], tables: EmbeddedTables
) -> None:
    first_put = next(n for n, each in enumerate(REQUESTS) if each["target"].endswith("PutItem"))
    replay(tables, first_put + 1)

    assert read_items(tables) == [page["stored"]]


def test_entity_reads_every_item_of_pynamodb_and_writes_it_back_unchanged(
    page: dict[str, Any], tables: EmbeddedTables
) -> None:
    replay(tables)
    items = read_items(tables)

    assert len(items) == 34
    for item in items:
        read = page["Order"].from_item(item)
        assert not read.unknown_attributes
        # PynamoDB writes no version in a batch.
        assert read.to_item() == {"version": 1} | item


def test_both_programs_leave_the_same_order(page: dict[str, Any], tables: EmbeddedTables) -> None:
    replay(tables)
    (theirs,) = (item for item in read_items(tables) if item["order_id"] == 7)
    ours = asyncio.run(page["stores"].run(page["Order"].of("oslo").get(7)))

    assert ours.to_item() == theirs


def test_item_of_a_batch_has_no_version_until_it_is_filled_in(
    page: dict[str, Any], tables: EmbeddedTables
) -> None:
    replay(tables)
    stores, order = Stores(tables), page["Order"]
    change = order.of("oslo").update(11).set(order.paid, True).at_version(order.version, 1)
    with pytest.raises(ConditionFailed):
        asyncio.run(stores.run(change))

    asyncio.run(stores.run(order.of("oslo").update(11).set_if_absent(order.version, 1)))
    assert asyncio.run(stores.run(change)).version == 2
