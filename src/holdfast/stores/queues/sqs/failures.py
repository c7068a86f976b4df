"""Maps every failure of the SDK and of SQS to a `HoldfastError`, and says whether the request may be retried.

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

SERVER_FAULT: Final = 500
# Some codes have this prefix, depending on the protocol that the SDK uses.
CODE_PREFIX: Final = "AWS.SimpleQueueService."
# The wait that SQS requires after a queue was deleted or purged.
SETTLING_S: Final = 60.0


def _settling(text: str) -> HoldfastError:
    return errors.RetryLater(text, retry_after_s=SETTLING_S)


CODES: Final[dict[str, Callable[[str], HoldfastError]]] = {
    "NonExistentQueue": errors.NotFound,
    "QueueDoesNotExist": errors.NotFound,
    "ResourceNotFoundException": errors.NotFound,
    "QueueAlreadyExists": errors.AlreadyExists,
    "QueueNameExists": errors.AlreadyExists,
    "QueueDeletedRecently": _settling,
    "PurgeQueueInProgress": _settling,
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
        "AccessDenied", "AccessDeniedException", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature",
        "InvalidAddress", "InvalidClientTokenId", "InvalidSecurity", "InvalidSignatureException",
        "MissingAuthenticationToken", "NotAuthorized", "OptInRequired", "RequestExpired", "SignatureDoesNotMatch",
        "UnrecognizedClientException", "KmsAccessDenied",
    }
)  # fmt: skip


class Failure(NamedTuple):
    error: HoldfastError
    kind: Kind


def failure_of(cause: Exception, action: str, where: str) -> Failure:
    """Map an error of the SDK. `action` is the service's name for the request, `where` the address it was
    sent to.
    """
    if isinstance(cause, HoldfastError):
        return Failure(cause, "final")
    response = getattr(cause, "response", None)
    if isinstance(response, dict) and "Error" in response:
        return _told(response)
    return _untold(cause, action, where)


def error_of(code: str, text: str, status: int = 400) -> HoldfastError:
    """Return the error for the service's `code`, also for one entry of a batch."""
    code = code.removeprefix(CODE_PREFIX)
    if code == "InvalidParameterValue" and "receipt handle" in text.lower():
        # For a FIFO queue whose visibility timeout has expired.
        return errors.ReceiptLost(text)
    if code in CODES:
        return CODES[code](text)
    if code in ACCESS_CODES:
        return errors.AccessRefused(code, text)
    if status >= SERVER_FAULT or code in ("InternalError", "InternalFailure", "ServiceUnavailable"):
        return errors.StoreFailed(f"SQS failed with HTTP {status}: {text}")
    return errors.RequestRefused(code, text or f"SQS refused with HTTP {status}")


def _told(response: dict[str, Any]) -> Failure:
    status = int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    said = response["Error"]
    error = error_of(str(said.get("Code", "")), str(said.get("Message", "")), status)
    if isinstance(error, errors.Throttled):
        return Failure(error, "undone")
    return Failure(error, "doubtful" if isinstance(error, errors.StoreFailed) else "final")


def _untold(cause: Exception, action: str, where: str) -> Failure:
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]
    from botocore.parsers import ResponseParserError  # type: ignore[import, unused-ignore]

    said = " ".join(str(cause).split()) or type(cause).__name__
    if isinstance(cause, sdk.ReadTimeoutError | sdk.ConnectionClosedError | sdk.IncompleteReadError):
        return Failure(errors.StoreUnreachable(f"No answer from {where} to {action}: {said}"), "doubtful")
    if isinstance(cause, sdk.ConnectionError) and not isinstance(cause, sdk.SSLError):
        return Failure(
            errors.StoreUnreachable(
                f"No connection to {where} for {action}: {said} Is it running, and is this its address?"
            ),
            "undone",
        )
    if isinstance(cause, sdk.HTTPClientError | ResponseParserError):
        return Failure(errors.StoreFailed(f"The answer of {where} to {action} was lost: {said}"), "doubtful")
    if isinstance(cause, sdk.ParamValidationError):
        return Failure(errors.InvalidRequest(f"{action}: {said}"), "final")
    return Failure(
        errors.SettingsError(
            f"The AWS SDK cannot be used for {action} at {where}: {said} Check credentials, region and "
            "profile "
            "(AWS_… variables), and the setting `queues`."
        ),
        "final",
    )
