"""Map errors of AWS services (KMS, Secrets Manager, S3, Bedrock) to Holdfast errors, for their adapters."""

from __future__ import annotations

from typing import Any, Final

from holdfast.core.errors import (
    AccessRefused,
    HoldfastError,
    RequestRefused,
    SettingsError,
    StoreFailed,
    StoreUnreachable,
    Throttled,
)

SERVER_ERROR_STATUS: Final = 500
ACCESS_CODES: Final = frozenset(
    {
        "AccessDenied", "AccessDeniedException", "AllAccessDisabled", "ExpiredToken", "ExpiredTokenException",
        "IncompleteSignature", "InvalidAccessKeyId", "InvalidClientTokenId",
        "InvalidSignatureException", "MissingAuthenticationToken", "NotAuthorized", "OptInRequired",
        "SignatureDoesNotMatch", "UnrecognizedClientException",
    }
)  # fmt: skip
THROTTLE_CODES: Final = frozenset(
    {
        "ThrottlingException",
        "LimitExceededException",
        "RequestLimitExceeded",
        "SlowDown",
        "TooManyRequestsException",
    }
)


def get_error_code(cause: Exception) -> str:
    """Return the service's error code; empty if the service did not answer."""
    response = getattr(cause, "response", None)
    return (
        str(response["Error"].get("Code", "")) if isinstance(response, dict) and "Error" in response else ""
    )


def get_error_text(cause: Exception) -> str:
    """Return the service's own sentence about its error; empty if it gave none."""
    response = getattr(cause, "response", None)
    return str(response["Error"].get("Message") or "") if isinstance(response, dict) else ""


def to_holdfast_error(cause: Exception, action: str, where: str) -> HoldfastError:
    """Return the Holdfast error for a failure that the adapter does not handle itself. `action` and `where`
    describe the call in its message.
    """
    if isinstance(cause, HoldfastError):
        return cause
    code = get_error_code(cause)
    return (
        _to_service_error(cause, code, action, where) if code else _to_transport_error(cause, action, where)
    )


def _to_service_error(cause: Any, code: str, action: str, where: str) -> HoldfastError:
    """Map an error that the service returned: access refused, throttled, failed (5xx), or refused."""
    text = f"{action} at {where}: {get_error_text(cause) or code}"
    status = int(cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    if code in ACCESS_CODES:
        return AccessRefused(code, text)
    if code in THROTTLE_CODES:
        return Throttled(text).with_code(code)
    if status >= SERVER_ERROR_STATUS:
        return StoreFailed(text).with_code(code)
    return RequestRefused(code, text)


def _to_transport_error(cause: Exception, action: str, where: str) -> HoldfastError:
    """Map an error without an answer: unreachable, or else a matter of settings."""
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]

    if isinstance(cause, (sdk.HTTPClientError, sdk.ConnectionError)):
        return StoreUnreachable(
            f"No answer from {where} to {action}: {cause}. Check that it is running and that its address is "
            "right."
        )
    return SettingsError(
        f"The AWS SDK failed in {action} at {where}: {cause}. Check its credentials, region and profile."
    )
