"""Failures of AWS's services (KMS, Secrets Manager, S3) as errors of ours. Called by their adapters."""

from __future__ import annotations

from typing import Any, Final

from holdfast.errors import (
    AccessRefused,
    HoldfastError,
    RequestRefused,
    SettingsError,
    StoreFailed,
    StoreUnreachable,
    Throttled,
)

SERVER_FAULT: Final = 500
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


def code_of(cause: Exception) -> str:
    """The service's name for the failure; empty where it did not answer."""
    response = getattr(cause, "response", None)
    return (
        str(response["Error"].get("Code", "")) if isinstance(response, dict) and "Error" in response else ""
    )


def error_of(cause: Exception, action: str, where: str) -> HoldfastError:
    """Everything that has no particular meaning to one adapter."""
    if isinstance(cause, HoldfastError):
        return cause
    code = code_of(cause)
    return _told(cause, code, action, where) if code else _untold(cause, action, where)


def _told(cause: Any, code: str, action: str, where: str) -> HoldfastError:
    text = f"{action} at {where}: {cause.response['Error'].get('Message', code)}"
    status = int(cause.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400))
    if code in ACCESS_CODES:
        return AccessRefused(code, text)
    if code in THROTTLE_CODES:
        return Throttled(text)
    if status >= SERVER_FAULT:
        return StoreFailed(text)
    return RequestRefused(code, text)


def _untold(cause: Exception, action: str, where: str) -> HoldfastError:
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]

    if isinstance(cause, (sdk.HTTPClientError, sdk.ConnectionError)):
        return StoreUnreachable(
            f"No answer from {where} to {action}: {cause}. Is it running, and its address right?"
        )
    return SettingsError(
        f"The AWS SDK cannot be used for {action} at {where}: {cause}. Check its credentials, region and profile."
    )
