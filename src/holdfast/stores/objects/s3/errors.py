"""Error mapping of S3: every failure, reported by the SDK or by obstore, becomes a `HoldfastError`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Final, NamedTuple

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
    Throttled,
)
from holdfast.security.aws_errors import (
    SERVER_ERROR_STATUS,
    THROTTLE_CODES,
    get_error_code,
    to_holdfast_error,
)

MISSING_CODES: Final = frozenset({"404", "NoSuchBucket", "NoSuchKey", "NotFound", "NoSuchVersion"})
TAKEN_CODES: Final = frozenset({"BucketAlreadyExists", "OperationAborted"})
INVALID_CODES: Final = frozenset(
    {"InvalidRequest", "InvalidArgument", "InvalidBucketState", "InvalidBucketName"}
)
# The response to HEAD has no body that could say more.
FORBIDDEN_HEAD_CODE: Final = "403"
# obstore gives the status and the body of a response only in its text.
_STATUS_PATTERN: Final = re.compile(r"status code: (\d{3})")
_ERROR_PATTERN: Final = re.compile(
    r"<Error>.*?<Code>(?P<code>\w+)</Code>(?:.*?<Message>(?P<text>.*?)</Message>)?.*?</Error>", re.DOTALL
)


def map_error(cause: Exception, action: str, where: str, *, writes: bool) -> HoldfastError:
    """Return the error for a failed SDK call: `OutcomeUnknown` if the call `writes` and may have been done.

    `action` is S3's name for the request, `where` the address it was sent to.
    """
    code = get_error_code(cause)
    # The response to HEAD has no body: its code is the status.
    own_code = "" if code.isdigit() else code
    if code in MISSING_CODES:
        return NotFound(f"{where} has no such bucket or object ({action}): {cause}").with_code(own_code)
    if code in TAKEN_CODES:
        text = f"{action} at {where}: {cause}. Bucket names are shared by all of AWS."
        return AlreadyExists(text).with_code(code)
    if code in INVALID_CODES:
        return InvalidRequest(f"{action} at {where}: {cause}").with_code(code)
    if code == FORBIDDEN_HEAD_CODE:
        return AccessRefused(
            "AccessDenied", f"{action} at {where} was refused. Check the bucket policy and the role."
        )
    error = to_holdfast_error(cause, action, where)
    if writes and isinstance(error, (StoreFailed, StoreUnreachable)) and not _is_unsent(cause):
        return OutcomeUnknown(error.message, safe_to_repeat=True).with_code(error.code)
    return error


class _Answer(NamedTuple):
    """What S3 answered, as far as obstore's error says it: the HTTP status, S3's code and its sentence."""

    status: int | None
    code: str
    text: str


@contextmanager
def map_obstore_errors(bucket: str, key: str, where: str, *, writes: bool) -> Iterator[None]:
    """Raise the `HoldfastError` for an obstore error inside the context."""
    try:
        yield
    except (BaseError, FileNotFoundError) as error:
        raise _map_obstore_error(error, f"{key} in {bucket}", where, writes=writes) from error


def _map_obstore_error(error: Exception, place: str, where: str, *, writes: bool) -> HoldfastError:
    """Map an error by its class, and one without a class of its own by the HTTP status in its text."""
    answer = _read_answer(error)
    said = f" ({answer.code}: {answer.text.rstrip('.')})" if answer.code else ""
    if isinstance(error, AlreadyExistsError) and writes:
        return AlreadyExists(f"The object {place} already exists{said}.").with_code(answer.code)
    if isinstance(error, FileNotFoundError):
        text = f"There is no object {place}, or no bucket of that name{said}."
        return NotFound(text).with_code(answer.code)
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return AccessRefused(answer.code or "AccessDenied", f"{where} refuses {place}: {answer.text}")
    return _map_status(answer, where, writes=writes)


def _map_status(answer: _Answer, where: str, *, writes: bool) -> HoldfastError:
    """Map a status below 500 to `RequestRefused`, another to `OutcomeUnknown` for a write; for a read to
    `Throttled`, `StoreFailed`, or `StoreUnreachable` without an answer.
    """
    status, code, text = answer
    if status is not None and status < SERVER_ERROR_STATUS:
        return RequestRefused(code or f"HTTP {status}", f"{where} refused: {text}")
    if writes:
        message = f"{where} did not confirm the put: {text} Repeat it."
        return OutcomeUnknown(message, safe_to_repeat=True).with_code(code)
    if code in THROTTLE_CODES:
        return Throttled(f"{where} refused for now: {text}").with_code(code)
    kind = StoreUnreachable if status is None else StoreFailed
    return kind(f"{where} returned no usable response: {text}").with_code(code)


def _read_answer(error: Exception) -> _Answer:
    """Return what S3 answered. Without S3's sentence, the text is the first line of obstore's."""
    status = _STATUS_PATTERN.search(str(error))
    body = _ERROR_PATTERN.search(str(error))
    code, text = (body["code"], unescape(body["text"] or "")) if body else ("", "")
    sentence = " ".join(text.split()) or _get_first_line(error)
    return _Answer(int(status[1]) if status else None, code, f"{sentence.rstrip('.')}.")


def _is_unsent(cause: Exception) -> bool:
    """Return whether the SDK failed before a connection existed, so that S3 cannot have done the request."""
    from botocore import exceptions as sdk  # type: ignore[import, unused-ignore]

    return isinstance(cause, (sdk.EndpointConnectionError, sdk.ConnectTimeoutError, sdk.ProxyConnectionError))


def _get_first_line(error: Exception) -> str:
    """Return the first line of the error's text, or its class if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]
