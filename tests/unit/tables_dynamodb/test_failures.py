"""Every error of the SDK and of the service has its class, its kind and a message that says what to do."""

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
from holdfast.stores.tables.dynamodb.failures import ACCESS_CODES, CODES, Failure, failure_of

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
# Of operations the port does not have: refused under the service's own name.
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


def blank(kind: type[Exception]) -> Exception:
    """One of the SDK's errors, with whatever its constructor wants."""
    if issubclass(kind, ClientError):
        return kind({"Error": {"Code": "X", "Message": "said"}}, "GetItem")
    made: Exception = kind.__new__(kind)
    Exception.__init__(made, "said")
    return made


def told(
    code: str, *, status: int = 400, message: str = "said", action: str = "PutItem", **more: Any
) -> Failure:
    response = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **more,
    }
    return failure_of(ClientError(response, action), action, ENDPOINT)


# --- the SDK's ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*SDK_CLASSES, ResponseParserError])
def test_every_error_of_the_sdk_is_one_of_ours(kind: type[Exception]) -> None:
    failure = failure_of(blank(kind), "GetItem", ENDPOINT)

    assert isinstance(failure.error, errors.HoldfastError)
    assert not isinstance(failure.error, errors.InternalError)
    assert "said" in failure.error.message


@pytest.mark.parametrize(
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
    failure = failure_of(blank(getattr(botocore.exceptions, name)), "GetItem", ENDPOINT)

    assert (type(failure.error), failure.kind) == (ours, kind)


def test_a_certificate_that_is_not_trusted_is_a_matter_of_settings() -> None:
    untrusted = botocore.exceptions.SSLError(
        endpoint_url=ENDPOINT, error=ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed")
    )
    failure = failure_of(untrusted, "GetItem", ENDPOINT)

    assert (type(failure.error), failure.kind) == (errors.SettingsError, "final")
    assert "AWS_CA_BUNDLE" in failure.error.message


def test_an_error_the_sdk_may_have_tomorrow_is_about_its_configuration() -> None:
    tomorrow = type("Tomorrow", (BotoCoreError,), {})

    assert isinstance(failure_of(blank(tomorrow), "GetItem", ENDPOINT).error, errors.SettingsError)


def test_what_is_nobodys_error_is_a_defect() -> None:
    assert isinstance(failure_of(ZeroDivisionError("said"), "GetItem", ENDPOINT).error, errors.InternalError)


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
    failure = failure_of(blank(getattr(botocore.exceptions, name)), "GetItem", ENDPOINT)

    assert remedy in failure.error.message
    if name != "NoRegionError":
        assert ENDPOINT in failure.error.message


# --- the service's ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", SERVICE_CODES)
def test_every_code_of_the_service_has_its_class(code: str) -> None:
    error = told(code, CancellationReasons=[{"Code": "None"}]).error

    if code in WITHOUT_A_CLASS:
        assert type(error) is errors.RequestRefused
        assert error.code == code
    else:
        assert type(error) not in (errors.RequestRefused, errors.InternalError)


@pytest.mark.parametrize("code", sorted(CODES))
def test_the_message_of_the_service_is_kept_to_the_letter(code: str) -> None:
    assert told(code, message="to the letter").error.message == "to the letter"


@pytest.mark.parametrize("code", sorted(ACCESS_CODES))
def test_who_may_not_is_refused_under_the_code_of_the_service(code: str) -> None:
    failure = told(code)

    assert (type(failure.error), failure.error.code, failure.kind) == (errors.AccessRefused, code, "final")


@pytest.mark.parametrize(
    ("status", "ours", "kind"),
    [(400, errors.RequestRefused, "final"), (413, errors.RequestRefused, "final")]
    + [(status, errors.StoreFailed, "doubtful") for status in (500, 502, 503, 504)],
)
def test_an_unknown_code_is_judged_by_its_status(status: int, ours: type[Exception], kind: str) -> None:
    failure = told("Surprise", status=status)

    assert (type(failure.error), failure.kind) == (ours, kind)


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
def test_what_was_not_done_may_come_again(code: str) -> None:
    assert told(code).kind == "undone"


def test_too_many_readers_of_a_stream_may_come_again_and_too_many_tables_at_once_not() -> None:
    assert told("LimitExceededException", action="GetRecords").kind == "undone"
    assert told("LimitExceededException", action="CreateTable").kind == "final"


def test_a_failed_condition_carries_the_item() -> None:
    item = {"pk": {"S": "a"}, "n": {"N": "1.50"}}
    error = told("ConditionalCheckFailedException", Item=item).error

    assert isinstance(error, errors.ConditionFailed)
    assert error.item == {"pk": "a", "n": Decimal("1.5")}


@pytest.mark.parametrize(
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
def test_a_cancelled_transaction_may_come_again_if_nothing_but_conflicts_cancelled_it(
    codes: list[str], kind: str
) -> None:
    failure = told("TransactionCanceledException", CancellationReasons=[{"Code": code} for code in codes])

    assert failure.kind == kind
    assert isinstance(failure.error, errors.TransactionCancelled)
    assert [reason.code for reason in failure.error.reasons] == codes
