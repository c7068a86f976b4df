"""Property test: any item, condition and update has the same outcome through our server as embedded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ConditionFailed, HoldfastError
from holdfast.operations.tables import CreateTable, DeleteItem, Operation, PutItem, Scan, UpdateItem
from holdfast.operations.values import Item
from holdfast.stores.tables.dynamodb import DynamoDBTables, open_dynamodb
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.wire.http.server import start_server
from tests.unit.operations.expressions.test_render import CONDITIONS, NAMES, updates
from tests.unit.stores.tables.dynamodb.test_values import VALUES

from .store import table

KEY: Item = {"pk": "a"}
ITEMS = st.dictionaries(NAMES, VALUES, max_size=5).map(lambda item: {**item, **KEY})
STEPS: st.SearchStrategy[Operation[Any]] = st.one_of(
    st.builds(
        lambda item, condition: PutItem(
            table="Tab", item=item, condition=condition, returns="ALL_OLD", returns_on_failure="ALL_OLD"
        ),
        ITEMS,
        st.none() | CONDITIONS,
    ),
    st.builds(
        lambda update, condition, returns: UpdateItem(
            table="Tab",
            key=KEY,
            update=update,
            condition=condition,
            returns=returns,
            returns_on_failure="ALL_OLD",
            capacity="INDEXES",
        ),
        updates(),
        st.none() | CONDITIONS,
        st.sampled_from(["ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"]),
    ),
    st.builds(
        lambda condition: DeleteItem(table="Tab", key=KEY, condition=condition, returns="ALL_OLD"), CONDITIONS
    ),
    st.builds(lambda condition: Scan(table="Tab", filter=condition, capacity="TOTAL"), CONDITIONS),
)


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[EmbeddedTables, DynamoDBTables]]:
    """Yield an embedded engine and the DynamoDB engine at our server, each with the table `Tab`."""
    with open_tables() as one, open_tables() as behind, start_server(tables=behind) as url:
        for tables in (one, behind):
            tables.run_blocking(CreateTable(definition=table("Tab", "pk:S")))
        other = open_dynamodb(endpoint=url)
        yield one, other
        other.close()


def outcome_of(act: Any) -> Any:
    """Return the result of the call, or the class, message and item of its error."""
    try:
        return act()
    except HoldfastError as error:
        return type(error), error.message, error.item if isinstance(error, ConditionFailed) else None


@given(steps=st.lists(STEPS, min_size=1, max_size=6))
def test_both_engines_agree_at_every_step(
    pair: tuple[EmbeddedTables, DynamoDBTables], steps: list[Operation[Any]]
) -> None:
    one, other = pair
    for step in (DeleteItem(table="Tab", key=KEY), *steps):
        assert outcome_of(lambda: asyncio.run(other.run(step))) == outcome_of(lambda: one.run_blocking(step))  # noqa: B023
