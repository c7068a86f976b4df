"""Refusals of the service for who asks: its own words, and beside them what was asked and what to do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import AccessRefused
from holdfast.operations.tables import BatchWriteItem, GetItem, ListTables, Operation, Put
from holdfast.stores.tables.dynamodb import open_dynamodb

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
        (ListTables(), "dynamodb:ListTables:"),
    ],
    ids=["one item", "a batch", "no table"],
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
