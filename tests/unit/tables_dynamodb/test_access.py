"""Refusals of the service for who asks: its own words, and beside them what was asked and what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.core.errors import AccessRefused, RequestRefused
from holdfast.operations.tables import (
    BatchWriteItem,
    GetItem,
    ListTables,
    Operation,
    Put,
    PutItem,
    TransactWriteItems,
)
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.wire.server import running_server

from .endpoints import Reply, refused, scripted

DENIED = refused("AccessDeniedException", "User is not authorized")


def refusal(operation: Operation[Any], reply: Reply = DENIED) -> AccessRefused:
    async def asked(url: str) -> None:
        async with open_dynamodb(endpoint=url, region="us-east-1") as tables:
            await tables.run(operation)

    with scripted(lambda *_: reply) as (url, _), pytest.raises(AccessRefused) as found:
        asyncio.run(asked(url))
    return found.value


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        (GetItem("Ships", {"pk": "a"}), "dynamodb:GetItem on Ships"),
        (BatchWriteItem((Put("Ships", {"pk": "a"}),)), "dynamodb:BatchWriteItem on Ships"),
        (
            TransactWriteItems((PutItem("Ships", {"pk": "a"}), PutItem("Berths", {"pk": "a"}))),
            "dynamodb:TransactWriteItems on Berths, Ships",
        ),
        (ListTables(), "dynamodb:ListTables:"),
    ],
    ids=["one item", "a batch", "a transaction", "no table"],
)
def test_what_is_not_allowed_names_the_action_the_table_and_the_remedy(
    operation: Operation[Any], told: str
) -> None:
    error = refusal(operation)

    [note] = error.__notes__
    assert error.message == "User is not authorized"
    assert told in note
    assert "`holdfast iam`" in note


@pytest.mark.parametrize(
    "code", ["UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"]
)
def test_credentials_that_are_not_accepted_name_where_they_come_from(code: str) -> None:
    [note] = refusal(ListTables(), refused(code)).__notes__

    assert "AWS_ACCESS_KEY_ID" in note and "AWS_PROFILE" in note


def test_an_endpoint_with_a_path_is_told_to_leave_it_out() -> None:
    async def asked(url: str) -> None:
        async with open_dynamodb(endpoint=f"{url}/tables", region="us-east-1") as tables:
            await tables.run(ListTables())

    with running_server() as url, pytest.raises(RequestRefused) as refused:
        asyncio.run(asked(url))

    [note] = refused.value.__notes__
    assert "leave out /tables" in note
