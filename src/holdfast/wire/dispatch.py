"""Decode the bytes of a request into an operation, and encode its result or error as bytes.

The server (and boto3 in process) calls `decode`, runs the operation on a store, and calls `encode`; any error
raised on the way goes to `encode_error`. Each operation of the protocol has one file in `operations/`, and
each such file is a `Codec`:

    SHAPE = structure("GetItemInput", TableName=table_name(), Key=item(required=True), …)

    def decode(request: Request) -> GetItem:
        '''The operation's own checks, in the service's order.'''
        key = to_plain_item(request["Key"])
        return GetItem(table=request["TableName"], key=key, consistent=request.get("ConsistentRead", False))

    def encode(operation: GetItem, result: GetItemResult, location: AwsLocation) -> Response:
        return {} if result.item is None else {"Item": encode_item(result.item)}

`decode` receives the request after `SHAPE` has read and checked it: members of the right type, no nulls, no
unknown members. `location` is the region and account of the tables, for operations that return ARNs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.errors import (
    AccessRefused,
    CancellationReason,
    ConditionFailed,
    HoldfastError,
    IdempotencyMismatch,
    InvalidRequest,
    MalformedRequest,
    TransactionCancelled,
    TransactionInProgress,
    UnknownOperation,
)
from holdfast.operations.tables import Operation
from holdfast.wire.operations import CODECS, NOT_SERVED
from holdfast.wire.shapes import Request, Response, Structure
from holdfast.wire.values import encode_item

if TYPE_CHECKING:
    from holdfast.wire.arns import AwsLocation

SERVICE_ERROR: Final = "com.amazon.coral.service#"
VALIDATION_ERROR: Final = "com.amazon.coral.validate#"
DYNAMODB_ERROR: Final = "com.amazonaws.dynamodb.v20120810#"
# The only text that a caller receives for an internal error: the details stay in the log.
INTERNAL_MESSAGE: Final = (
    "The request processing has failed because of an unknown error, exception or failure."
)

_read_json: Final = msgspec.json.Decoder().decode
_write_json: Final = msgspec.json.Encoder().encode


class Codec(Protocol):
    """A file of `operations/`: the request shape of one operation, and its decoder and encoder."""

    @property
    def SHAPE(self) -> Structure: ...  # noqa: N802

    def decode(self, request: Request, /) -> Operation[Any]: ...

    def encode(self, operation: Any, result: Any, location: AwsLocation, /) -> Response: ...


def decode(target: str, body: bytes) -> tuple[Codec, Operation[Any]]:
    """Return the operation that a request names, and its codec. `target` is the header X-Amz-Target.

    Raise `UnknownOperation`, `MalformedRequest`, or `InvalidRequest` for a request that fails a check.
    """
    request = _parse_json(body) if body else None
    codec = CODECS.get(target)
    if codec is None:
        raise UnknownOperation(_format_not_served(target))
    if type(request) is not dict:
        raise MalformedRequest("")
    read = codec.SHAPE.read(request)
    codec.SHAPE.check(request, read)
    return codec, codec.decode(read)


def _format_not_served(target: str) -> str:
    """Return the error text: empty as in DynamoDB, or a sentence if DynamoDB has the operation and Holdfast
    does not.
    """
    name = target.partition(".")[2]
    return (
        f"Holdfast does not serve {name} yet; docs/reference/tables.md lists what it serves."
        if name in NOT_SERVED
        else ""
    )


def encode(codec: Codec, operation: Operation[Any], result: Any, location: AwsLocation) -> bytes:
    """Encode the result of an operation as the JSON body of its response."""
    return _write_json(codec.encode(operation, result, location))


def encode_error(error: BaseException) -> tuple[int, bytes]:
    """Return the status and body for an error. An internal error reveals no details."""
    if not isinstance(error, HoldfastError) or error.code == "InternalServerError":
        return 500, _write_json(
            {"__type": f"{DYNAMODB_ERROR}InternalServerError", "message": INTERNAL_MESSAGE}
        )
    return error.http_status, _write_json({"__type": _get_error_type(error), **_encode_error_members(error)})


def _parse_json(body: bytes) -> Any:
    """Parse JSON. Malformed JSON, bad UTF-8, numbers out of range and excessive nesting are the same error in
    DynamoDB.
    """
    try:
        return _read_json(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
        raise MalformedRequest("") from None


def _get_error_type(error: HoldfastError) -> str:
    """Return the `__type` of an error: DynamoDB's namespace for it, and its code."""
    if isinstance(error, InvalidRequest):
        return VALIDATION_ERROR + error.code
    if isinstance(error, MalformedRequest | UnknownOperation | AccessRefused):
        return SERVICE_ERROR + error.code
    return DYNAMODB_ERROR + error.code


def _encode_error_members(error: HoldfastError) -> Response:
    """Return the error members other than the type. DynamoDB spells `message` as `Message` in errors of
    transactions and of its request reader.
    """
    if isinstance(error, MalformedRequest | UnknownOperation):
        return {"Message": error.message} if error.message else {}
    if isinstance(error, IdempotencyMismatch | TransactionInProgress):
        return {"Message": error.message}
    if isinstance(error, TransactionCancelled):
        return {
            "Message": error.message,
            "CancellationReasons": [_encode_reason(each) for each in error.reasons],
        }
    if isinstance(error, ConditionFailed) and error.item is not None:
        return {"message": error.message, "Item": encode_item(error.item)}
    return {"message": error.message}


def _encode_reason(reason: CancellationReason) -> Response:
    """Encode why one action of a transaction was cancelled; absent members are left out."""
    encoded: Response = {"Code": reason.code}
    if reason.message is not None:
        encoded["Message"] = reason.message
    if reason.item is not None:
        encoded["Item"] = encode_item(reason.item)
    return encoded
