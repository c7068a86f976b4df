"""Access errors of DynamoDB at a scripted endpoint: the service's own text, plus action, table and remedy."""

from __future__ import annotations

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
from holdfast.wire.http.server import start_server

from .endpoints import Reply, error_reply, run_scripted_endpoint

DENIED = error_reply("AccessDeniedException", "User is not authorized")


async def run_refused(operation: Operation[Any], reply: Reply = DENIED) -> AccessRefused:
    """Run the operation at an endpoint that refuses it, and return the error."""

    async def send(url: str) -> None:
        async with open_dynamodb(endpoint=url, region="us-east-1") as tables:
            await tables.run(operation)

    with run_scripted_endpoint(lambda *_: reply) as (url, _), pytest.raises(AccessRefused) as found:
        await send(url)
    return found.value


@pytest.mark.parametrize(
    ("operation", "message"),
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
async def test_denied_operation_error_names_action_table_and_remedy(
    operation: Operation[Any], message: str
) -> None:
    error = await run_refused(operation)

    [note] = error.__notes__
    assert error.message == "User is not authorized"
    assert message in note
    assert "`holdfast iam`" in note


@pytest.mark.parametrize(
    "code", ["UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException"]
)
async def test_rejected_credentials_error_names_their_source(code: str) -> None:
    [note] = (await run_refused(ListTables(), error_reply(code))).__notes__

    assert "AWS_ACCESS_KEY_ID" in note and "AWS_PROFILE" in note


async def test_endpoint_with_a_path_is_refused_with_a_hint() -> None:
    async def send(url: str) -> None:
        async with open_dynamodb(endpoint=f"{url}/tables", region="us-east-1") as tables:
            await tables.run(ListTables())

    with start_server() as url, pytest.raises(RequestRefused) as refused:
        await send(url)

    [note] = refused.value.__notes__
    assert "leave out /tables" in note
