"""Error mapping of the SDK and the service: each failure as a Holdfast error, and whether a retry is
possible.

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
from holdfast.stores.tables.dynamodb.values import plain_item

Kind: TypeAlias = Literal["final", "undone", "doubtful"]

SERVER_FAULT: Final = 500
# OpenSSL's text.
UNTRUSTED: Final = "certificate verify failed"
# A proxy may respond with a whole page of HTML.
SAID_CHARACTERS_MAX: Final = 500
STREAM_ACTIONS: Final = frozenset({"ListStreams", "DescribeStream", "GetShardIterator", "GetRecords"})
CONFLICT: Final = "TransactionConflict"
# A cancelled transaction was not done. If it has only these reasons, a retry may succeed.
THROTTLED_REASONS: Final = frozenset(
    {"ThrottlingError", "ProvisionedThroughputExceeded", "RequestLimitExceeded"}
)
PASSING_REASONS: Final = THROTTLED_REASONS | {"None", CONFLICT}

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
NOT_ALLOWED: Final = "AccessDeniedException"
ACCESS_CODES: Final = frozenset(
    {
        NOT_ALLOWED,
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
UNDONE: Final = (errors.Throttled, errors.TransactionInProgress, errors.TransactionConflict)


class NotDynamoDB(Exception):
    """A response that is not in DynamoDB's protocol, which the SDK would treat as an empty one."""


class Failure(NamedTuple):
    error: HoldfastError
    kind: Kind


def failure_of(cause: Exception, action: str, endpoint: str) -> Failure:
    """Map an error to a `Failure`. `action` is the service's name of the request, `endpoint` its address."""
    if isinstance(cause, HoldfastError):
        return Failure(cause, "final")
    response = getattr(cause, "response", None)
    if isinstance(response, dict) and "Error" in response:
        failure = _told(response, action)
        if isinstance(failure.error, errors.RequestRefused | errors.UnknownOperation):
            _note_path(failure.error, endpoint)
        return failure
    for kinds, tell in _by_class():
        if isinstance(cause, kinds):
            return tell(cause, action, endpoint)
    return Failure(errors.InternalError(f"{action} at {endpoint} failed: {_said(cause)}"), "final")


def _note_path(error: HoldfastError, endpoint: str) -> None:
    """Add a note if the endpoint has a path: an operation unknown at one address may exist at another."""
    path = urlsplit(endpoint).path.strip("/")
    if path:
        error.add_note(
            f"The endpoint {endpoint} has a path, and DynamoDB answers at the root of its address: leave out "
            f"/{path}."
        )


def throttled_of(error: HoldfastError) -> tuple[int, int]:
    """Return how many throttle events and throttled requests an attempt was, as CloudWatch counts them."""
    if isinstance(error, errors.TransactionCancelled):
        events = sum(reason.code in THROTTLED_REASONS for reason in error.reasons)
        return events, int(events > 0)
    return (1, 1) if isinstance(error, errors.Throttled) else (0, 0)


# --- errors of the service ----------------------------------------------------------------------------------


def _told(response: dict[str, Any], action: str) -> Failure:
    code, text = str(response["Error"].get("Code", "")), str(response["Error"].get("Message", ""))
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    if code == "ConditionalCheckFailedException":
        return Failure(errors.ConditionFailed(text, item=_item(response)), "final")
    if code == "TransactionCanceledException":
        return _cancelled(response.get("CancellationReasons", ()))
    if code in CODES:
        error = CODES[code](text)
        # For a stream: too many readers. For tables: too many changes at once, which lasts minutes.
        crowded = isinstance(error, errors.LimitExceeded) and action in STREAM_ACTIONS
        return Failure(error, "undone" if crowded or isinstance(error, UNDONE) else "final")
    if code in ACCESS_CODES:
        return Failure(errors.AccessRefused(code, text), "final")
    if status >= SERVER_FAULT or code == "InternalServerError":
        said = f"The service failed with HTTP {status}: {text}"
        return Failure(errors.StoreFailed(" ".join(said.split())[:SAID_CHARACTERS_MAX]), "doubtful")
    return Failure(errors.RequestRefused(code, text or f"The service refused with HTTP {status}"), "final")


def _item(told: dict[str, Any]) -> Any:
    return plain_item(told["Item"]) if told.get("Item") else None


def _cancelled(told: Any) -> Failure:
    reasons = [
        CancellationReason(each.get("Code", "None"), each.get("Message"), _item(each)) for each in told
    ]
    codes = {reason.code for reason in reasons}
    passing = bool(codes - {"None"}) and codes <= PASSING_REASONS
    return Failure(errors.TransactionCancelled(reasons), "undone" if passing else "final")


# --- errors of the SDK --------------------------------------------------------------------------------------

Teller: TypeAlias = Callable[[Exception, str, str], Failure]


@cache
def _by_class() -> tuple[tuple[tuple[type[Exception], ...], Teller], ...]:
    """Return the mapping by error class, in order: specific classes first, the SDK's base class last."""
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]
    from botocore.parsers import ResponseParserError  # type: ignore[import, unused-ignore]

    return (
        # Only these can occur after the request was sent.
        ((sdk.ReadTimeoutError, sdk.ConnectionClosedError, sdk.HTTPClientError), _unanswered),
        ((sdk.SSLError,), _insecure),
        ((sdk.ConnectionError,), _unconnected),
        (
            (
                sdk.IncompleteReadError, sdk.ChecksumError, sdk.FlexibleChecksumError, sdk.EventStreamError,
                ResponseParserError, NotDynamoDB,
            ),
            _unreadable,
        ),
        (
            (
                sdk.NoCredentialsError, sdk.PartialCredentialsError, sdk.CredentialRetrievalError,
                sdk.UnknownCredentialError, sdk.MetadataRetrievalError, sdk.NoAuthTokenError, sdk.SSOError,
                sdk.LoginError, sdk.TokenRetrievalError, sdk.UnknownTokenProviderError,
                sdk.RefreshWithMFAUnsupportedError,
            ),
            _without_credentials,
        ),
        ((sdk.NoRegionError, sdk.InvalidRegionError, sdk.UnknownRegionError), _without_region),
        ((sdk.ParamValidationError, sdk.ValidationError, sdk.MissingParametersError, RecursionError), _invalid),
        ((sdk.BotoCoreError, sdk.ClientError, sdk.UndefinedModelAttributeError, ValueError), _misconfigured),
    )  # fmt: skip


def _unconnected(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(
        errors.StoreUnreachable(
            f"No connection to {endpoint} for {action}: {_said(cause)} Is it running, and is this its "
            "address? "
            "`holdfast serve` starts a local one; for AWS check the region and the network"
        ),
        "undone",
    )


def _insecure(cause: Exception, action: str, endpoint: str) -> Failure:
    """Map a TLS error. A certificate is verified before anything is sent; other TLS errors can occur at any
    time.
    """
    if UNTRUSTED not in str(cause):
        return _unanswered(cause, action, endpoint)
    return Failure(
        errors.SettingsError(
            f"The certificate of {endpoint} is not trusted: {_said(cause)} Name the file of the authority "
            "that signed "
            "it in AWS_CA_BUNDLE"
        ),
        "final",
    )


def _unanswered(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(
        errors.StoreUnreachable(
            f"No answer from {endpoint} to {action}: {_said(cause)} It may be overloaded or gone: look at "
            "its health, "
            "or give it longer (`Timeouts`)"
        ),
        "doubtful",
    )


def _unreadable(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(
        errors.StoreFailed(
            f"The answer of {endpoint} to {action} could not be read: {_said(cause)} Is it a DynamoDB "
            "endpoint?"
        ),
        "doubtful",
    )


def _without_credentials(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(
        errors.SettingsError(
            f"No usable AWS credentials for {endpoint}: {_said(cause)} Set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, choose a profile with AWS_PROFILE, or run where a role provides them"
        ),
        "final",
    )


def _without_region(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(
        errors.SettingsError(
            f"No usable AWS region: {_said(cause)} Give one in the settings (`dynamodb://eu-central-1`), "
            "in AWS_DEFAULT_REGION or in the profile; or name an endpoint (`dynamodb+http://127.0.0.1:8000`)"
        ),
        "final",
    )


def _invalid(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(errors.InvalidRequest(f"{action}: {_said(cause)}"), "final")


def _misconfigured(cause: Exception, action: str, endpoint: str) -> Failure:
    return Failure(
        errors.SettingsError(
            f"The AWS SDK cannot be used for {action} at {endpoint}: {_said(cause)} Check its configuration "
            "(AWS_… variables, the profile) and that boto3 is recent"
        ),
        "final",
    )


def _said(cause: Exception) -> str:
    """Return the remote side's message as one sentence."""
    text = " ".join(str(cause).split()) or type(cause).__name__
    return text if text.endswith((".", "!", "?")) else f"{text}."
