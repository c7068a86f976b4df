"""Maps every failure of S3, reported by the SDK or by obstore, to a `HoldfastError`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)

from holdfast.core.errors import (
    AccessRefused,
    AlreadyExists,
    HoldfastError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    RequestRefused,
    StoreFailed,
    StoreUnreachable,
)
from holdfast.security.aws_errors import SERVER_ERROR_STATUS, get_error_code, to_holdfast_error

MISSING_CODES: Final = frozenset({"404", "NoSuchBucket", "NoSuchKey", "NotFound", "NoSuchVersion"})
TAKEN_CODES: Final = frozenset({"BucketAlreadyExists", "OperationAborted"})
INVALID_CODES: Final = frozenset(
    {"InvalidRequest", "InvalidArgument", "InvalidBucketState", "InvalidBucketName"}
)
# The response to HEAD has no body that could say more.
REFUSED_HEAD: Final = "403"
# obstore gives the status of a response only in this text, unless the error has a class of its own.
_STATUS: Final = re.compile(r"status code: (\d{3})")


def failure_of(cause: Exception, action: str, where: str, *, writes: bool) -> HoldfastError:
    """Map an error of an SDK call."""
    code = get_error_code(cause)
    if code in MISSING_CODES:
        return NotFound(f"{where} has no such bucket or object ({action}): {cause}")
    if code in TAKEN_CODES:
        return AlreadyExists(f"{action} at {where}: {cause}. The names of buckets are shared by all of AWS.")
    if code in INVALID_CODES:
        return InvalidRequest(f"{action} at {where}: {cause}")
    if code == REFUSED_HEAD:
        return AccessRefused("AccessDenied", f"{action} at {where} is refused: check bucket policy and role.")
    error = to_holdfast_error(cause, action, where)
    if writes and isinstance(error, (StoreFailed, StoreUnreachable)) and not _was_not_sent(cause):
        return OutcomeUnknown(error.message, safe_to_repeat=True)
    return error


@contextmanager
def mapped(bucket: str, key: str, where: str, *, writes: bool) -> Iterator[None]:
    """Map the errors of an obstore call."""
    try:
        yield
    except AlreadyExistsError as error:
        raise AlreadyExists(
            f"There is already an object {key} in {bucket}, and it was to be created."
        ) from error
    except FileNotFoundError as error:
        raise NotFound(f"There is no object {key} in {bucket}, or no such bucket.") from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise AccessRefused(
            "AccessDenied", f"{where} refuses {key} in {bucket}: {_first_line(error)}"
        ) from error
    except BaseError as error:
        raise _untold(error, where, writes=writes) from error


def _untold(error: BaseError, where: str, *, writes: bool) -> HoldfastError:
    told = _STATUS.search(str(error))
    status = int(told.group(1)) if told else None
    if status is not None and status < SERVER_ERROR_STATUS:
        return RequestRefused(f"HTTP {status}", f"{where} refused: {_first_line(error)}")
    if writes:
        return OutcomeUnknown(
            f"{where} did not say that it has it: {_first_line(error)} Put it again.", safe_to_repeat=True
        )
    kind = StoreUnreachable if status is None else StoreFailed
    return kind(f"No answer from {where} that could be used: {_first_line(error)}")


def _was_not_sent(cause: Exception) -> bool:
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]

    return isinstance(cause, (sdk.EndpointConnectionError, sdk.ConnectTimeoutError, sdk.ProxyConnectionError))


def _first_line(error: Exception) -> str:
    return f"{(str(error).splitlines() or [type(error).__name__])[0].rstrip('.')}."
