"""Deterministic writes for the tables engine whose result can be checked wherever they were cut off.

Several workers write, each to its own items: puts, updates, deletes, batches and transactions. A worker's
write depends only on its seed and the number of the write. So the items of a worker, found after a crash,
must be those after its first n writes, for an n of at least the acknowledged ones: `count_writes` finds it.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeAlias

from holdfast.operations.expressions.nodes import Literal, Path, RemoveAction, SetAction, Update
from holdfast.operations.tables import (
    BatchWriteItem,
    CreateTable,
    Delete,
    DeleteItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    Put,
    PutItem,
    TableDefinition,
    TransactWriteItems,
    UpdateContinuousBackups,
    UpdateItem,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables

TABLE = "work"
KEYS_OF_A_WORKER = 6

Items: TypeAlias = dict[str, Item]

DEFINITION = TableDefinition(
    TABLE,
    (KeyAttribute("pk", "S"), KeyAttribute("g", "S"), KeyAttribute("h", "N")),
    KeySchema("pk"),
    global_indexes=(
        IndexDefinition("whole", KeySchema("g", "h"), IndexProjection("ALL")),
        IndexDefinition("part", KeySchema("h"), IndexProjection("INCLUDE", ("n",))),
    ),
    billing_mode="PAY_PER_REQUEST",
    stream_view="NEW_AND_OLD_IMAGES",
)


def prepare(tables: EmbeddedTables) -> None:
    """Create the table, with point-in-time recovery on."""
    tables.run_blocking(CreateTable(DEFINITION))
    tables.run_blocking(UpdateContinuousBackups(TABLE, True))


def make_write(worker: str, number: int) -> tuple[Operation[Any], list[tuple[str, Item | None]]]:
    """Return write `number` of a worker: the operation, and the resulting item by key (None: deleted)."""
    random = Random(f"{worker}/{number}")
    names = random.sample([f"{worker}-{at}" for at in range(KEYS_OF_A_WORKER)], 4)
    items = [_make_item(name, number, random) for name in names]
    kind = random.choice(["put", "update", "delete", "batch", "transaction", "transaction"])
    match kind:
        case "put":
            return PutItem(TABLE, items[0]), [(names[0], items[0])]
        case "update":
            return _make_update(items[0]), [(names[0], items[0])]
        case "delete":
            return DeleteItem(TABLE, {"pk": names[0]}), [(names[0], None)]
        case "batch":
            batch = (Put(TABLE, items[0]), Put(TABLE, items[1]), Delete(TABLE, {"pk": names[2]}))
            return BatchWriteItem(batch), [(names[0], items[0]), (names[1], items[1]), (names[2], None)]
    actions = (PutItem(TABLE, items[0]), _make_update(items[1]), DeleteItem(TABLE, {"pk": names[2]}))
    return TransactWriteItems(actions), [(names[0], items[0]), (names[1], items[1]), (names[2], None)]


def _make_item(name: str, number: int, random: Random) -> Item:
    item: Item = {
        "pk": name,
        "n": number,
        "seen": frozenset({number}),
        "filling": "x" * random.randrange(600),
    }
    if random.random() < 0.7:
        item["g"] = random.choice("abc")
    if random.random() < 0.7:
        item["h"] = random.randrange(5)
    return item


def _make_update(item: Item) -> UpdateItem:
    """Build an update that produces exactly this item from any previous one."""
    sets = tuple(SetAction(Path(name), Literal(item[name])) for name in item if name != "pk")
    removes = tuple(RemoveAction(Path(name)) for name in ("g", "h") if name not in item)
    return UpdateItem(TABLE, {"pk": item["pk"]}, Update(sets, removes))


def compute_outcome(worker: str, first: int, count: int, before: Items) -> Items:
    """Compute the items of a worker after so many more writes, from the one numbered `first`."""
    items = dict(before)
    for number in range(first, first + count):
        for name, item in make_write(worker, number)[1]:
            if item is None:
                items.pop(name, None)
            else:
                items[name] = item
    return items


def count_writes(worker: str, first: int, begun: int, acknowledged: int, before: Items, found: Items) -> int:
    """Return how many writes, from the one numbered `first`, lead from the items `before` to those `found`.

    The number is from `acknowledged` to `begun`. Raise `AssertionError` if there is no such number.
    """
    items = compute_outcome(worker, first, acknowledged, before)
    for count in range(acknowledged, begun + 1):
        if items == found:
            return count
        items = compute_outcome(worker, first + count, 1, items)
    raise AssertionError(
        f"{worker}: acknowledged {acknowledged} and began {begun} writes from {first} on, but what was found "
        "is"
        f" the outcome of no such number of them: {found}"
    )


def group_by_worker(items: Items) -> dict[str, Items]:
    """Group items by the worker that owns them."""
    by_worker: dict[str, Items] = {}
    for name, item in items.items():
        by_worker.setdefault(name.partition("-")[0], {})[name] = item
    return by_worker
