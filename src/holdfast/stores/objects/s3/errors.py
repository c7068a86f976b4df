"""Error mapping of S3: every failure, reported by the SDK or by obstore, becomes a `HoldfastError`."""

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
FORBIDDEN_HEAD_CODE: Final = "403"
# obstore gives the status of a response only in this text, unless the error has a class of its own.
_STATUS_PATTERN: Final = re.compile(r"status code: (\d{3})")


def map_error(cause: Exception, action: str, where: str, *, writes: bool) -> HoldfastError:
    """Return the error for a failed SDK call: `OutcomeUnknown` if the call `writes` and may have been done.

    `action` is S3's name for the request, `where` the address it was sent to.
    """
    code = get_error_code(cause)
    if code in MISSING_CODES:
        return NotFound(f"{where} has no such bucket or object ({action}): {cause}")
    if code in TAKEN_CODES:
        return AlreadyExists(f"{action} at {where}: {cause}. Bucket names are shared by all of AWS.")
    if code in INVALID_CODES:
        return InvalidRequest(f"{action} at {where}: {cause}")
    if code == FORBIDDEN_HEAD_CODE:
        return AccessRefused(
            "AccessDenied", f"{action} at {where} was refused. Check the bucket policy and the role."
        )
    error = to_holdfast_error(cause, action, where)
    if writes and isinstance(error, (StoreFailed, StoreUnreachable)) and not _is_unsent(cause):
        return OutcomeUnknown(error.message, safe_to_repeat=True)
    return error


@contextmanager
def map_obstore_errors(bucket: str, key: str, where: str, *, writes: bool) -> Iterator[None]:
    """Raise the `HoldfastError` for an obstore error inside the context."""
    try:
        yield
    except AlreadyExistsError as error:
        raise AlreadyExists(f"The object {key} in {bucket} already exists.") from error
    except FileNotFoundError as error:
        raise NotFound(f"There is no object {key} in {bucket}, or no bucket of that name.") from error
    except (PermissionDeniedError, UnauthenticatedError) as error:
        raise AccessRefused(
            "AccessDenied", f"{where} refuses {key} in {bucket}: {_get_first_line(error)}"
        ) from error
    except BaseError as error:
        raise _map_obstore_error(error, where, writes=writes) from error


def _map_obstore_error(error: BaseError, where: str, *, writes: bool) -> HoldfastError:
    """Map an error without a class of its own by the HTTP status in its text: below 500 `RequestRefused`,
    otherwise `OutcomeUnknown` for a write, `StoreUnreachable` or `StoreFailed` for a read.
    """
    match = _STATUS_PATTERN.search(str(error))
    status = int(match.group(1)) if match else None
    if status is not None and status < SERVER_ERROR_STATUS:
        return RequestRefused(f"HTTP {status}", f"{where} refused: {_get_first_line(error)}")
    if writes:
        return OutcomeUnknown(
            f"{where} did not confirm the put: {_get_first_line(error)} Repeat it.", safe_to_repeat=True
        )
    kind = StoreUnreachable if status is None else StoreFailed
    return kind(f"{where} returned no usable response: {_get_first_line(error)}")


def _is_unsent(cause: Exception) -> bool:
    """Return whether the SDK failed before a connection existed, so that S3 cannot have done the request."""
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]

    return isinstance(cause, (sdk.EndpointConnectionError, sdk.ConnectTimeoutError, sdk.ProxyConnectionError))


def _get_first_line(error: Exception) -> str:
    """Return the first line of the error's text as a sentence."""
    return f"{(str(error).splitlines() or [type(error).__name__])[0].rstrip('.')}."
