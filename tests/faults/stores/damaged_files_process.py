"""A process with an open tables store, for the tests that damage its files: one command per line of input.

put 7     write item 7                          → acknowledged | refused | failed …
read 9    read the items 0 to 8, in every way   → a letter per item: right, Missing, Wrong, refused
quiet     move the log into the file            → done | refused | failed …
close     close the store                       → done
"""

from __future__ import annotations

import sys

from holdfast.core.errors import HoldfastError, StoreFileError
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import (
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    PutItem,
    Query,
    TableDefinition,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

RIGHT, MISSING, WRONG, REFUSED = "rMWx"
DEFINITION = TableDefinition(
    "Rows",
    (KeyAttribute("pk", "S"), KeyAttribute("sk", "N"), KeyAttribute("colour", "S")),
    KeySchema("pk", "sk"),
    global_indexes=(IndexDefinition("by-colour", KeySchema("colour", "sk"), IndexProjection()),),
)


def build_item(number: int) -> Item:
    return {"pk": "one", "sk": number, "colour": "red", "text": f"<{number:05d}>" * 60}


def create(path: str) -> EmbeddedTables:
    """Open a store and create its table."""
    tables = open_tables(path)
    tables.run_blocking(CreateTable(DEFINITION))
    return tables


def read_items(tables: EmbeddedTables, numbers: list[int]) -> str:
    """Return a letter for each item: the worst that a keyed read, a query and a query of the index show."""
    found = [_read_item(tables, number) for number in numbers]
    for condition, index in (
        (KeyTest("pk", "=", ("one",)), None),
        (KeyTest("colour", "=", ("red",)), "by-colour"),
    ):
        pages = _read_all(tables, condition, index)
        if pages is not None:
            found = [
                max(one, _judge(pages.get(n), n), key="xrMW".index)
                for one, n in zip(found, numbers, strict=True)
            ]
    return "".join(found)


def _read_item(tables: EmbeddedTables, number: int) -> str:
    try:
        item = tables.run_blocking(GetItem("Rows", {"pk": "one", "sk": number})).item
    except StoreFileError:
        return REFUSED
    return _judge(item, number)


def _judge(item: Item | None, number: int) -> str:
    if item is None:
        return MISSING
    return RIGHT if item == build_item(number) else WRONG


def _read_all(tables: EmbeddedTables, condition: KeyTest, index: str | None) -> dict[object, Item] | None:
    """Return all items by their number, or None if the store refuses."""
    items: list[Item] = []
    start: Item | None = None
    try:
        while True:
            page = tables.run_blocking(Query("Rows", (condition,), index, start_key=start))
            items += page.items or []
            start = page.last_key
            if start is None:
                return {item["sk"]: item for item in items}
    except StoreFileError:
        return None


def main(path: str) -> None:
    """Open the store and answer commands until the input ends."""
    try:
        tables = open_tables(path)
    except StoreFileError as error:
        say(f"refused {error.message}")
        return
    say("open")
    for line in sys.stdin:
        word, *arguments = line.split()
        try:
            say(_run(tables, word, [int(each) for each in arguments]))
        except StoreFileError as error:
            say(f"refused {error.message}")
        except HoldfastError as error:
            say(f"failed {type(error).__name__} {error}")


def _run(tables: EmbeddedTables, word: str, numbers: list[int]) -> str:
    """Run one command and return its answer."""
    match word:
        case "put":
            tables.run_blocking(PutItem("Rows", build_item(numbers[0])))
            return "acknowledged"
        case "read":
            return read_items(tables, numbers)
        case "quiet":
            tables.compact(rewrite=False)
        case "close":
            tables.close()
    return "done"


def say(text: str) -> None:
    sys.stdout.write(text.replace("\n", " ") + "\n")
    sys.stdout.flush()
