"""Error mapping of DynamoDB and its SDK: a `HoldfastError` per failure, and whether to retry the request.

`service.py` calls this for every error of a call. A `Failure` has the error to raise and a kind:

    final      the same request would fail again
    undone     it was not done, and a retry may succeed
    doubtful   it may have been done: `repeats.py` decides whether it may be sent again
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from holdfast.core import errors
from holdfast.core.errors import CancellationReason, HoldfastError
from holdfast.stores.tables.dynamodb.values import decode_item

Kind: TypeAlias = Literal["final", "undone", "doubtful"]

SERVER_ERROR_STATUS: Final = 500
# OpenSSL's text.
UNTRUSTED_CERTIFICATE: Final = "certificate verify failed"
# A proxy may respond with a whole page of HTML.
MAX_MESSAGE_CHARACTERS: Final = 500
STREAM_ACTIONS: Final = frozenset({"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"})
CONFLICT_REASON: Final = "TransactionConflict"
# A cancelled transaction was not done. If it has only these reasons, a retry may succeed.
THROTTLED_REASONS: Final = frozenset(
    {"ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"}
)
TEMPORARY_REASONS: Final = THROTTLED_REASONS | {"None", CONFLICT_REASON}

CODES: Final[dict[str, Callable[[str], HoldfastError]]] = {
    "ValidationException": errors.InvalidRequest,
    "SerializationException": errors.MalformedRequest,
    "UnknownOperationException": errors.UnknownOperation,
    "ResourceNotFoundException": errors.NotFound,
    "IndexNotFoundException": errors.NotFound,
    "TableNotFoundException": errors.TableNotFound,
    "BackupNotFoundException": errors.BackupNotFound,
    "PointInTimeRecoveryUnavailableException": errors.RecoveryUnavailable,
    "ContinuousBackupsUnavailableException": errors.RecoveryUnavailable,
    "ResourceInUseException": errors.AlreadyExists,
    "TableAlreadyExistsException": errors.TableAlreadyExists,
    "TableInUseException": errors.TableInUse,
    "BackupInUseException": errors.BackupInUse,
    "InvalidRestoreTimeException": errors.InvalidRestoreTime,
    "IdempotentParameterMismatchException": errors.IdempotencyMismatch,
    "ExpiredIteratorException": errors.IteratorExpired,
    "TrimmedDataAccessException": errors.TrimmedData,
    "TransactionConflictException": errors.TransactionConflict,
    "ReplicatedWriteConflictException": errors.TransactionConflict,
    "ProvisionedThroughputExceededException": errors.Throttled,
    "RequestLimitExceeded": errors.Throttled,
    "ThrottlingException": errors.Throttled,
    "LimitExceededException": errors.LimitExceeded,
    "TransactionInProgressException": errors.TransactionInProgress,
}
# The caller is authenticated but not authorised.
ACCESS_DENIED: Final = "AccessDeniedException"
ACCESS_CODES: Final = frozenset(
    {
        ACCESS_DENIED,
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
# Refused before anything was done; a retry may succeed.
RETRYABLE_ERRORS: Final = (errors.Throttled, errors.TransactionInProgress, errors.TransactionConflict)


class NotDynamoDB(Exception):
    """A response that is not in DynamoDB's protocol, which the SDK would treat as an empty one."""


class Failure(NamedTuple):
    """A mapped error and its kind."""

    error: HoldfastError
    kind: Kind


def map_error(cause: Exception, action: str, endpoint: str) -> Failure:
    """Map an error to a `Failure`. `action` is the service's name of the request, `endpoint` its address."""
    if isinstance(cause, HoldfastError):
        return Failure(cause, "final")
    response = getattr(cause, "response", None)
    if isinstance(response, dict) and "Error" in response:
        failure = _map_service_error(response, action)
        if isinstance(failure.error, errors.RequestRefused | errors.UnknownOperation):
            _add_path_note(failure.error, endpoint)
        return failure
    for kinds, map_cause in _get_mappers():
        if isinstance(cause, kinds):
            return map_cause(cause, action, endpoint)
    return Failure(errors.InternalError(f"{action} at {endpoint} failed: {_format_cause(cause)}"), "final")


def _add_path_note(error: HoldfastError, endpoint: str) -> None:
    """Add a note if the endpoint has a path, because DynamoDB's endpoints have none."""
    path = urlsplit(endpoint).path.strip("/")
    if path:
        error.add_note(
            f"The endpoint {endpoint} has a path, but DynamoDB's address has none: leave out /{path}."
        )


def count_throttles(error: HoldfastError) -> tuple[int, int]:
    """Return the throttle events and throttled requests of one attempt, as CloudWatch counts them."""
    if isinstance(error, errors.TransactionCancelled):
        events = sum(reason.code in THROTTLED_REASONS for reason in error.reasons)
        return events, int(events > 0)
    return (1, 1) if isinstance(error, errors.Throttled) else (0, 0)


# --- errors of the service ----------------------------------------------------------------------------------


def _map_service_error(response: dict[str, Any], action: str) -> Failure:
    """Map an error response of the service by its code, and by its HTTP status for an unknown code."""
    code, text = str(response["Error"].get("Code", "")), str(response["Error"].get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    if code == "ConditionalCheckFailedException":
        return Failure(errors.ConditionFailed(text, item=_decode_current_item(response)), "final")
    if code == "TransactionCanceledException":
        return _map_cancellation(response.get("CancellationReasons", ()))
    if code in CODES:
        error = CODES[code](text).with_code(code)
        # For a stream: too many readers, which passes. For tables: too many changes, which takes minutes.
        is_crowded_stream = isinstance(error, errors.LimitExceeded) and action in STREAM_ACTIONS
        return Failure(
            error, "undone" if is_crowded_stream or isinstance(error, RETRYABLE_ERRORS) else "final"
        )
    if code in ACCESS_CODES:
        return Failure(errors.AccessRefused(code, text), "final")
    if status >= SERVER_ERROR_STATUS or code == "InternalServerError":
        message = " ".join(f"The service failed with HTTP {status} ({code}): {text}".split())
        failed = errors.StoreFailed(message[:MAX_MESSAGE_CHARACTERS]).with_code(code)
        return Failure(failed, "doubtful")
    return Failure(errors.RequestRefused(code, text or f"The service refused with HTTP {status}."), "final")


def _decode_current_item(response: dict[str, Any]) -> Any:
    """Return the item that the response shows, or None."""
    return decode_item(response["Item"]) if response.get("Item") else None


def _map_cancellation(cancellation_reasons: Any) -> Failure:
    """Return `TransactionCancelled`; it may be retried if all of its reasons are throttling or conflicts."""
    reasons = [
        CancellationReason(each.get("Code", "None"), each.get("Message"), _decode_current_item(each))
        for each in cancellation_reasons
    ]
    codes = {reason.code for reason in reasons}
    is_temporary = bool(codes - {"None"}) and codes <= TEMPORARY_REASONS
    return Failure(errors.TransactionCancelled(reasons), "undone" if is_temporary else "final")


# --- errors of the SDK --------------------------------------------------------------------------------------

ErrorMapper: TypeAlias = Callable[[Exception, str, str], Failure]


@cache
def _get_mappers() -> tuple[tuple[tuple[type[Exception], ...], ErrorMapper], ...]:
    """Return the mapping by error class, in order: specific classes first, the SDK's base class last."""
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]
    from botocore.parsers import ResponseParserError  # type: ignore[import, unused-ignore]

    return (
        # Only these can occur after the request was sent.
        ((sdk.ReadTimeoutError, sdk.ConnectionClosedError, sdk.HTTPClientError), _map_lost_response),
        ((sdk.SSLError,), _map_tls_error),
        ((sdk.ConnectionError,), _map_connection_error),
        (
            (
                sdk.IncompleteReadError, sdk.ChecksumError, sdk.FlexibleChecksumError, sdk.EventStreamError,
                ResponseParserError, NotDynamoDB,
            ),
            _map_unreadable_response,
        ),
        (
            (
                sdk.NoCredentialsError, sdk.PartialCredentialsError, sdk.CredentialRetrievalError,
                sdk.UnknownCredentialError, sdk.MetadataRetrievalError, sdk.NoAuthTokenError, sdk.SSOError,
                sdk.LoginError, sdk.TokenRetrievalError, sdk.UnknownTokenProviderError,
                sdk.RefreshWithMFAUnsupportedError,
            ),
            _map_credentials_error,
        ),
        ((sdk.NoRegionError, sdk.InvalidRegionError, sdk.UnknownRegionError), _map_region_error),
        (
            (sdk.ParamValidationError, sdk.ValidationError, sdk.MissingParametersError, RecursionError),
            _map_invalid_request,
        ),
        (
            (sdk.BotoCoreError, sdk.ClientError, sdk.UndefinedModelAttributeError, ValueError),
            _map_configuration_error,
        ),
    )  # fmt: skip


def _map_connection_error(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `StoreUnreachable`: no connection, so the request was not done."""
    return Failure(
        errors.StoreUnreachable(
            f"No connection to {endpoint} for {action}: {_format_cause(cause)} Check that it is running and "
            "that its"
            " address is right. `holdfast serve` starts a local one; for AWS, check region and network."
        ),
        "undone",
    )


def _map_tls_error(cause: Exception, action: str, endpoint: str) -> Failure:
    """Map a TLS error.

    The SDK verifies the certificate before it sends anything; other TLS errors can occur at any time.
    """
    if UNTRUSTED_CERTIFICATE not in str(cause):
        return _map_lost_response(cause, action, endpoint)
    return Failure(
        errors.SettingsError(
            f"The certificate of {endpoint} is not trusted: {_format_cause(cause)} Set AWS_CA_BUNDLE to the "
            "file of"
            " the authority that signed it."
        ),
        "final",
    )


def _map_lost_response(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `StoreUnreachable`: the response was lost, so the request may have been done."""
    return Failure(
        errors.StoreUnreachable(
            f"No answer from {endpoint} to {action}: {_format_cause(cause)} It may be overloaded or down: "
            "check its"
            " health, or allow more time (`Timeouts`)."
        ),
        "doubtful",
    )


def _map_unreadable_response(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `StoreFailed`: the response cannot be read, so the request may have been done."""
    return Failure(
        errors.StoreFailed(
            f"Unreadable response from {endpoint} to {action}: {_format_cause(cause)} Is it a DynamoDB "
            "endpoint?"
        ),
        "doubtful",
    )


def _map_credentials_error(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `SettingsError` for missing or unusable credentials."""
    return Failure(
        errors.SettingsError(
            f"No usable AWS credentials for {endpoint}: {_format_cause(cause)} Set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, choose a profile with AWS_PROFILE, or run where a role provides them."
        ),
        "final",
    )


def _map_region_error(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `SettingsError` for a missing or invalid region."""
    return Failure(
        errors.SettingsError(
            f"No usable AWS region: {_format_cause(cause)} Set one in the settings "
            "(`dynamodb://eu-central-1`), in AWS_DEFAULT_REGION or in the profile; or set an endpoint "
            "(`dynamodb+http://127.0.0.1:8000`)."
        ),
        "final",
    )


def _map_invalid_request(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `InvalidRequest` for a request that the SDK refuses to send."""
    return Failure(errors.InvalidRequest(f"{action}: {_format_cause(cause)}"), "final")


def _map_configuration_error(cause: Exception, action: str, endpoint: str) -> Failure:
    """Return `SettingsError` for any other error of the SDK."""
    return Failure(
        errors.SettingsError(
            f"The AWS SDK failed in {action} at {endpoint}: {_format_cause(cause)} Check its configuration "
            "(AWS_… variables, the profile) and that boto3 is recent."
        ),
        "final",
    )


def _format_cause(cause: Exception) -> str:
    """Return the message of an error as one sentence."""
    text = " ".join(str(cause).split()) or type(cause).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."
