"""Error mapping of SQS and its SDK: a `HoldfastError` per failure, and whether the request may be retried.

final      the same request would fail again
undone     it was not done, and may be later
doubtful   it may have been done: `service.py` decides whether to retry it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from holdfast.core import errors
from holdfast.core.errors import HoldfastError

Kind: TypeAlias = Literal["final", "undone", "doubtful"]

SERVER_ERROR_STATUS: Final = 500
# Some codes have this prefix, depending on the protocol that the SDK uses.
CODE_PREFIX: Final = "AWS.SimpleQueueService."
# The wait that SQS requires after a queue was deleted or purged.
QUEUE_SETTLING_S: Final = 60.0


def _build_retry_later(text: str) -> HoldfastError:
    """Return the error that asks the caller to retry in a minute, after SQS has deleted or purged the
    queue.
    """
    return errors.RetryLater(text, retry_after_s=QUEUE_SETTLING_S)


CODES: Final[dict[str, Callable[[str], HoldfastError]]] = {
    "NonExistentQueue": errors.NotFound,
    "QueueDoesNotExist": errors.NotFound,
    "ResourceNotFoundException": errors.NotFound,
    "QueueAlreadyExists": errors.AlreadyExists,
    "QueueNameExists": errors.AlreadyExists,
    "QueueDeletedRecently": _build_retry_later,
    "PurgeQueueInProgress": _build_retry_later,
    "ReceiptHandleIsInvalid": errors.ReceiptLost,
    "MessageNotInflight": errors.ReceiptLost,
    "OverLimit": errors.LimitExceeded,
    "RequestThrottled": errors.Throttled,
    "ThrottlingException": errors.Throttled,
    "Throttling": errors.Throttled,
    "KmsThrottled": errors.Throttled,
    "InvalidParameterValue": errors.InvalidRequest,
    "InvalidParameterCombination": errors.InvalidRequest,
    "InvalidAttributeName": errors.InvalidRequest,
    "InvalidAttributeValue": errors.InvalidRequest,
    "InvalidMessageContents": errors.InvalidRequest,
    "MissingParameter": errors.InvalidRequest,
    "UnsupportedOperation": errors.InvalidRequest,
    "BatchRequestTooLong": errors.InvalidRequest,
    "EmptyBatchRequest": errors.InvalidRequest,
    "TooManyEntriesInBatchRequest": errors.InvalidRequest,
}
ACCESS_CODES: Final = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException",
        "IncompleteSignature", "InvalidAddress", "InvalidClientTokenId", "InvalidSecurity",
        "InvalidSignatureException", "MissingAuthenticationToken", "NotAuthorized", "OptInRequired",
        "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException", "KmsAccessDenied",
    }
)  # fmt: skip


class Failure(NamedTuple):
    """The error to raise, and whether the request may be retried."""

    error: HoldfastError
    kind: Kind


def map_error(cause: Exception, action: str, where: str) -> Failure:
    """Map an error of the SDK.

    `action` is the service's name for the request, `where` the address it was sent to.
    """
    if isinstance(cause, HoldfastError):
        return Failure(cause, "final")
    response = getattr(cause, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _map_service_error(response)
    return _map_sdk_error(cause, action, where)


def map_error_code(code: str, text: str, status: int = 400) -> HoldfastError:
    """Return the error for the service's `code`, of a request or of one entry of a batch."""
    code = code.removeprefix(CODE_PREFIX)
    return _choose_error(code, text, status).with_code(code)


def _choose_error(code: str, text: str, status: int) -> HoldfastError:
    """Return the error by the code, or by the HTTP status if the code is unknown."""
    if code == "InvalidParameterValue" and "receipt handle" in text.lower():
        # For a FIFO queue whose visibility timeout has expired.
        return errors.ReceiptLost(text)
    if code in CODES:
        return CODES[code](text)
    if code in ACCESS_CODES:
        return errors.AccessRefused(code, text)
    if status >= SERVER_ERROR_STATUS or code in ("InternalError", "InternalFailure", "ServiceUnavailable"):
        return errors.StoreFailed(f"SQS failed with HTTP {status} ({code}): {text}")
    return errors.RequestRefused(code, text or f"SQS refused with HTTP {status}")


def _map_service_error(response: dict[str, Any]) -> Failure:
    """Map an error response of SQS: throttling is undone, a server error doubtful, any other final."""
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    details = response["Error"]
    error = map_error_code(str(details.get("Code", "")), str(details.get("Message", "")), status)
    if isinstance(error, errors.Throttled):
        return Failure(error, "undone")
    return Failure(error, "doubtful" if isinstance(error, errors.StoreFailed) else "final")


def _map_sdk_error(cause: Exception, action: str, where: str) -> Failure:
    """Map an error without a response from SQS: a failed connection is undone, a lost response doubtful, any
    other final.
    """
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]
    from botocore.parsers import ResponseParserError  # type: ignore[import, unused-ignore]

    reason = " ".join(str(cause).split()) or type(cause).__name__
    if isinstance(cause, sdk.ReadTimeoutError | sdk.ConnectionClosedError | sdk.IncompleteReadError):
        return Failure(errors.StoreUnreachable(f"No answer from {where} to {action}: {reason}"), "doubtful")
    if isinstance(cause, sdk.ConnectionError) and not isinstance(cause, sdk.SSLError):
        return Failure(
            errors.StoreUnreachable(
                f"No connection to {where} for {action}: {reason} Check that it runs and that this is its "
                "address."
            ),
            "undone",
        )
    if isinstance(cause, sdk.HTTPClientError | ResponseParserError):
        return Failure(
            errors.StoreFailed(f"The response of {where} to {action} was lost: {reason}"), "doubtful"
        )
    if isinstance(cause, sdk.ParamValidationError):
        return Failure(errors.InvalidRequest(f"{action}: {reason}"), "final")
    return Failure(
        errors.SettingsError(
            f"The AWS SDK failed before it sent {action} to {where}: {reason} Check credentials, region and "
            "profile (AWS_… variables), and the setting `queues`."
        ),
        "final",
    )
