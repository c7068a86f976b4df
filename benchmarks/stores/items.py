"""The table and the items of the benchmarks: about 1 KB each, with a dozen attributes of common types."""

from __future__ import annotations

from holdfast.operations.tables import (
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    TableDefinition,
)
from holdfast.operations.values import Item

TABLE = "Bench"
ITEMS_PER_PARTITION = 50


def build_item(number: int) -> Item:
    """Return the item with this number, the same on every call."""
    return {
        "pk": f"customer-{number // ITEMS_PER_PARTITION:07d}",
        "sk": f"order-{number:09d}",
        "status": ("open", "paid", "sent", "closed")[number % 4],
        "total": 1000 + number % 977,
        "count": number % 13,
        "paid": number % 2 == 0,
        "address": {
            "street": "Fifth Avenue 1234",
            "city": "Springfield",
            "lines": ["c/o Smith", "2nd floor"],
        },
        "tags": ["express", "gift", "insured"],
        **{
            f"note{k}": f"{number:09d} " + "the quick brown fox jumps over the lazy dog " * 3
            for k in range(5)
        },
    }


def build_definition(
    *, with_index: bool = False, with_stream: bool = False, name: str = TABLE
) -> TableDefinition:
    """Return the table's definition, with a keys-only index by status and a stream if wanted."""
    index = IndexDefinition("by-status", KeySchema("status", "sk"), IndexProjection("KEYS_ONLY"))
    attributes = [KeyAttribute("pk", "S"), KeyAttribute("sk", "S")]
    if with_index:
        attributes.append(KeyAttribute("status", "S"))
    return TableDefinition(
        name,
        tuple(attributes),
        KeySchema("pk", "sk"),
        global_indexes=(index,) if with_index else (),
        billing_mode="PAY_PER_REQUEST",
        stream_view="NEW_IMAGE" if with_stream else None,
    )
