"""The past of one item on every tables engine: read from the embedded log, and refused by DynamoDB's API."""

from __future__ import annotations

import pytest

from holdfast.core.errors import RecoveryUnavailable
from holdfast.operations.tables import (
    DeleteItem,
    DescribeContinuousBackups,
    GetItemAt,
    ListItemChanges,
    UpdateContinuousBackups,
)
from holdfast.stores.tables.embedded import EmbeddedTables

from .store import Store


@pytest.fixture
def name(store: Store) -> str:
    """Create a table with recovery, in which one item was put, changed and deleted."""
    made = store.create("pk:S")
    store.run(UpdateContinuousBackups(table=made, enabled=True))
    store.put(made, {"pk": "a", "v": 1}, {"pk": "a", "v": 2})
    store.run(DeleteItem(table=made, key={"pk": "a"}))
    return made


def test_reads_the_past_or_says_that_there_is_no_such_read(store: Store, name: str) -> None:
    now = store.run(DescribeContinuousBackups(table=name)).latest
    assert now is not None
    changes, past = ListItemChanges(name, {"pk": "a"}), GetItemAt(name, {"pk": "a"}, now)
    if not isinstance(store.tables, EmbeddedTables):
        for operation in (changes, past):
            with pytest.raises(RecoveryUnavailable, match="only restores whole tables"):
                store.run(operation)
        return

    found = [(each.event, each.before, each.after) for each in store.run(changes).changes]
    assert found == [
        ("REMOVE", {"pk": "a", "v": 2}, None),
        ("MODIFY", {"pk": "a", "v": 1}, {"pk": "a", "v": 2}),
        ("INSERT", None, {"pk": "a", "v": 1}),
    ]
    assert store.run(past).item is None
