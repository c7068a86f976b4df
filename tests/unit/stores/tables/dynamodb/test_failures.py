"""Error mapping of DynamoDB: every SDK error and service code has its class, kind and remedy."""

from __future__ import annotations

import inspect
import ssl
from decimal import Decimal
from typing import Any

import botocore.exceptions
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from botocore.session import Session

from holdfast.core import errors
from holdfast.stores.tables.dynamodb.errors import ACCESS_CODES, CODES, Failure, map_error
from tests.cases import all_cases

ENDPOINT = "http://127.0.0.1:8000"
SDK_CLASSES = sorted(
    {
        found
        for _, found in inspect.getmembers(botocore.exceptions, inspect.isclass)
        if issubclass(found, Exception) and not issubclass(found, Warning)
        if found.__module__ == "botocore.exceptions"
    },
    key=lambda found: found.__name__,
)
SERVICE_CODES = sorted(
    {
        shape.metadata.get("error", {}).get("code", shape.name)
        for service in ("dynamodb", "dynamodbstreams")
        for shape in Session().get_service_model(service).error_shapes
    }
)
# Codes of operations that the port does not have: refused under the service's own name.
WITHOUT_A_CLASS = {
    "DuplicateItemException",
    "ExportConflictException",
    "ExportNotFoundException",
    "GlobalTableAlreadyExistsException",
    "GlobalTableNotFoundException",
    "ImportConflictException",
    "ImportNotFoundException",
    "InvalidExportTimeException",
    "ItemCollectionSizeLimitExceededException",
    "PolicyNotFoundException",
    "ReplicaAlreadyExistsException",
    "ReplicaNotFoundException",
}


def make_sdk_error(kind: type[Exception]) -> Exception:
    """Build one of the SDK's errors, with whatever arguments its constructor needs."""
    if issubclass(kind, ClientError):
        return kind({"Error": {"Code": "X", "Message": "said"}}, "GetItem")
    made: Exception = kind.__new__(kind)
    Exception.__init__(made, "said")
    return made


def map_client_error(
    code: str, *, status: int = 400, message: str = "said", action: str = "PutItem", **more: Any
) -> Failure:
    """Map the SDK's error for a response of the service with this code."""
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **more,
    }
    return map_error(ClientError(response, action), action, ENDPOINT)


@all_cases("kind", [*SDK_CLASSES, ResponseParserError])
def test_maps_every_sdk_error(kind: type[Exception]) -> None:
    failure = map_error(make_sdk_error(kind), "GetItem", ENDPOINT)

    assert isinstance(failure.error, errors.HoldfastError)
    assert not isinstance(failure.error, errors.InternalError)
    assert "said" in failure.error.message


@all_cases(
    ("name", "ours", "kind"),
    [
        ("EndpointConnectionError", errors.StoreUnreachable, "undone"),
        ("ConnectTimeoutError", errors.StoreUnreachable, "undone"),
        ("ProxyConnectionError", errors.StoreUnreachable, "undone"),
        ("SSLError", errors.StoreUnreachable, "doubtful"),
        ("ReadTimeoutError", errors.StoreUnreachable, "doubtful"),
        ("ConnectionClosedError", errors.StoreUnreachable, "doubtful"),
        ("HTTPClientError", errors.StoreUnreachable, "doubtful"),
        ("ResponseStreamingError", errors.StoreUnreachable, "doubtful"),
        ("IncompleteReadError", errors.StoreFailed, "doubtful"),
        ("ChecksumError", errors.StoreFailed, "doubtful"),
        ("NoCredentialsError", errors.SettingsError, "final"),
        ("UnauthorizedSSOTokenError", errors.SettingsError, "final"),
        ("NoRegionError", errors.SettingsError, "final"),
        ("ProfileNotFound", errors.SettingsError, "final"),
        ("UnknownServiceError", errors.SettingsError, "final"),
        ("ParamValidationError", errors.InvalidRequest, "final"),
    ],
)
def test_an_error_of_the_sdk_has_its_class_and_kind(name: str, ours: type[Exception], kind: str) -> None:
    failure = map_error(make_sdk_error(getattr(botocore.exceptions, name)), "GetItem", ENDPOINT)

    assert (type(failure.error), failure.kind) == (ours, kind)


def test_untrusted_certificate_is_a_settings_error() -> None:
    untrusted = botocore.exceptions.SSLError(
        endpoint_url=ENDPOINT, error=ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed")
    )
    failure = map_error(untrusted, "GetItem", ENDPOINT)

    assert (type(failure.error), failure.kind) == (errors.SettingsError, "final")
    assert "AWS_CA_BUNDLE" in failure.error.message


def test_unknown_sdk_error_is_a_settings_error() -> None:
    tomorrow = type("Tomorrow", (BotoCoreError,), {})

    assert isinstance(map_error(make_sdk_error(tomorrow), "GetItem", ENDPOINT).error, errors.SettingsError)


def test_unexpected_error_is_an_internal_error() -> None:
    assert isinstance(map_error(ZeroDivisionError("said"), "GetItem", ENDPOINT).error, errors.InternalError)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("EndpointConnectionError", "`holdfast serve`"),
        ("ReadTimeoutError", "`Timeouts`"),
        ("NoCredentialsError", "AWS_ACCESS_KEY_ID"),
        ("NoRegionError", "AWS_DEFAULT_REGION"),
    ],
)
def test_a_message_names_the_remedy(name: str, remedy: str) -> None:
    failure = map_error(make_sdk_error(getattr(botocore.exceptions, name)), "GetItem", ENDPOINT)

    assert remedy in failure.error.message
    if name != "NoRegionError":
        assert ENDPOINT in failure.error.message


@all_cases("code", SERVICE_CODES)
def test_every_code_of_the_service_has_its_class(code: str) -> None:
    error = map_client_error(code, CancellationReasons=[{"Code": "None"}]).error

    if code in WITHOUT_A_CLASS:
        assert type(error) is errors.RequestRefused
        assert error.code == code
    else:
        assert type(error) not in (errors.RequestRefused, errors.InternalError)


@all_cases("code", sorted(CODES))
def test_keeps_the_exact_message_and_the_code_of_the_service(code: str) -> None:
    error = map_client_error(code, message="to the letter").error

    assert (error.message, error.code) == ("to the letter", code)


@all_cases("code", sorted(ACCESS_CODES))
def test_denied_access_keeps_the_code_of_the_service(code: str) -> None:
    failure = map_client_error(code)

    assert (type(failure.error), failure.error.code, failure.kind) == (errors.AccessRefused, code, "final")


@all_cases(
    ("status", "ours", "kind"),
    [(400, errors.RequestRefused, "final"), (413, errors.RequestRefused, "final")]
    + [(status, errors.StoreFailed, "doubtful") for status in (500, 502, 503, 504)],
)
def test_unknown_code_is_classified_by_status(status: int, ours: type[Exception], kind: str) -> None:
    failure = map_client_error("Surprise", status=status)

    assert (type(failure.error), failure.kind) == (ours, kind)
    assert (failure.error.code, "said" in failure.error.message) == ("Surprise", True)


@pytest.mark.parametrize(
    "code",
    [
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "TransactionInProgressException",
        "TransactionConflictException",
    ],
)
def test_undone_requests_are_retryable(code: str) -> None:
    assert map_client_error(code).kind == "undone"


def test_stream_limit_is_retryable_and_table_limit_is_not() -> None:
    assert map_client_error("LimitExceededException", action="GetRecords").kind == "undone"
    assert map_client_error("LimitExceededException", action="CreateTable").kind == "final"


def test_a_failed_condition_carries_the_item() -> None:
    item = {"pk": {"S": "a"}, "n": {"N": "1.50"}}
    error = map_client_error("ConditionalCheckFailedException", Item=item).error

    assert isinstance(error, errors.ConditionFailed)
    assert error.item == {"pk": "a", "n": Decimal("1.5")}


@all_cases(
    ("codes", "kind"),
    [
        (["None", "TransactionConflict"], "undone"),
        (["TransactionConflict", "ThrottlingError"], "undone"),
        (["None", "ConditionalCheckFailed"], "final"),
        (["TransactionConflict", "ConditionalCheckFailed"], "final"),
        (["ValidationError"], "final"),
        (["None"], "final"),
        ([], "final"),
    ],
)
def test_transaction_cancelled_only_by_conflicts_is_retryable(codes: list[str], kind: str) -> None:
    failure = map_client_error(
        "TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes]
    )

    assert failure.kind == kind
    assert isinstance(failure.error, errors.TransactionCancelled)
    assert [reason.code for reason in failure.error.reasons] == codes
