"""Request bodies with limits, as dependencies of a route.

    TripBody = Annotated[TripAsked, Depends(JsonBody(TripAsked))]

    async def request_trip(employee: Caller, body: TripBody) -> BookingView: …

A body parameter of FastAPI is read before the dependencies run, also for a caller without a token. These are
read in the order of the parameters, so put them after the caller. They refuse a body that is too large (413),
too slow (408) or of another media type (415). OpenAPI describes them like the framework's own.

The middleware in front of every route (`middleware.py`) decodes bodies with a Content-Encoding
(`decode_bodies`): a route sees them as if they had been sent without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.core.distribution import explain_missing
from holdfast.core.http.content_coding import (
    BodyDecoder,
    CodingUnsupported,
    DecodedTooLarge,
    EncodingInvalid,
    parse_codings,
    run_decoding,
)

with explain_missing(__name__, "api"):
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope

__all__ = [
    "BytesBody",
    "Content",
    "JsonBody",
    "RequestBody",
    "build_too_large",
    "count_bytes",
    "decode_bodies",
    "is_declared_larger",
    "limit_body",
    "read_body",
]

JSON: Final = "application/json"
MAX_JSON_BYTES: Final = 64 * 1024
# For the whole body, so that a client that sends single bytes does not hold a connection longer.
MAX_BODY_S: Final = 30.0

_INVALID: Final = 400
_TIMED_OUT: Final = 408
_TOO_LARGE: Final = 413
_UNSUPPORTED: Final = 415
_ENCODED_HEADERS: Final = frozenset({b"content-encoding", b"content-length"})

Content: TypeAlias = Mapping[str, type[BaseModel] | Mapping[str, Any]]
"""Of each media type, the model or the JSON schema of its bodies."""

M = TypeVar("M", bound=BaseModel)


class RequestBody:
    """Base of the dependencies that read the body.

    `content` describes it in OpenAPI: a model or a media type object for each media type; empty for nothing.
    """

    def __init__(self, content: Content) -> None:
        self.content = content


class BytesBody(RequestBody):
    """A dependency that returns the body as bytes, of at most `max_bytes`.

    With `media_types`, the body must have one of them. `model` describes it.
    """

    def __init__(
        self, max_bytes: int, *, media_types: Sequence[str] = (), model: type[BaseModel] | None = None
    ) -> None:
        super().__init__({} if model is None else dict.fromkeys(media_types, model))
        self._max_bytes, self._media_types = max_bytes, media_types

    async def __call__(self, request: Request) -> bytes:
        """Return the body. Raise `HTTPException` 408, 413 or 415."""
        if self._media_types:
            self.check_media_type(request.headers.get("content-type", ""))
        return await read_body(request, self._max_bytes)

    def check_media_type(self, header: str) -> None:
        """Raise `HTTPException` 415 unless the Content-Type is one of the media types."""
        if header.partition(";")[0].strip().lower() not in self._media_types:
            wrong = f"Invalid Content-Type: expected {' or '.join(self._media_types)}."
            raise HTTPException(_UNSUPPORTED, wrong)


class JsonBody(RequestBody, Generic[M]):
    """A dependency that returns the body as a model; an empty body counts as `{}`.

    Raise pydantic's `ValidationError`, which is answered with 400 and without the values. The media type is
    not checked: a page of another origin cannot forge a caller that has a bearer token.
    """

    def __init__(self, model: type[M], max_bytes: int = MAX_JSON_BYTES) -> None:
        super().__init__({JSON: model})
        self._model, self._max_bytes = model, max_bytes

    async def __call__(self, request: Request) -> M:
        """Return the model. Raise `HTTPException` 408 or 413."""
        return self._model.model_validate_json(await read_body(request, self._max_bytes) or b"{}")


async def read_body(request: Request, max_bytes: int, max_s: float | None = None) -> bytes:
    """Return the body. Raise `HTTPException` 413 if it is larger than `max_bytes`, 408 if it takes longer
    than `max_s`, by default `MAX_BODY_S`.
    """
    limited, max_s = limit_body(request, max_bytes), MAX_BODY_S if max_s is None else max_s
    try:
        async with asyncio.timeout(max_s):
            return await _join(limited)
    except TimeoutError:
        wrong = f"The body was incomplete after {max_s:g} seconds. Send it without pauses."
        raise HTTPException(_TIMED_OUT, wrong, headers={"connection": "close"}) from None


async def _join(request: Request) -> bytes:
    """Return the whole body. In one buffer: a list of its parts would take forty times as much memory for a
    client that sends single bytes.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
    return bytes(body)


def limit_body(request: Request, max_bytes: int) -> Request:
    """Return the request with a bounded body, for code that reads it itself, such as a form.

    Raise `HTTPException` 413 if the declared length is larger; reading raises it as soon as the body is.
    """
    if is_declared_larger(request.headers.get("content-length", ""), max_bytes):
        raise build_too_large(max_bytes)
    return Request(request.scope, count_bytes(request.receive, max_bytes))


def count_bytes(receive: Receive, max_bytes: int) -> Receive:
    """Wrap `receive` so that it raises `HTTPException` 413 once the body is larger than `max_bytes`."""
    count = 0

    async def receive_counted() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > max_bytes:
            raise build_too_large(max_bytes)
        return message

    return receive_counted


def is_declared_larger(length: str, max_bytes: int) -> bool:
    """Return whether a Content-Length header is above the limit."""
    return length.isdecimal() and int(length) > max_bytes


def build_too_large(max_bytes: int) -> HTTPException:
    """Return the 413 for a body that is larger than the limit."""
    return HTTPException(
        _TOO_LARGE, f"The body is larger than the limit of {max_bytes} bytes. Send a smaller body."
    )


def decode_bodies(scope: Scope, receive: Receive, max_bytes: int) -> tuple[Scope, Receive]:
    """Return the call with its body decoded by its Content-Encoding, as it is read, up to `max_bytes`.

    Raise `HTTPException` 415 for an unsupported encoding. Reading raises 400 for damaged data and 413 for a
    body that is too large.
    """
    encodings = [value for name, value in scope["headers"] if name == b"content-encoding"]
    if not encodings:
        return scope, receive
    try:
        codings = parse_codings(encodings)
    except CodingUnsupported as error:
        raise HTTPException(_UNSUPPORTED, f"The body cannot be decoded: {error}.") from None
    # The headers describe the encoded body.
    headers = [header for header in scope["headers"] if header[0] not in _ENCODED_HEADERS]
    decoder = BodyDecoder(codings, max_bytes)

    async def receive_decoded() -> Message:
        message = await receive()
        return await _decode_message(decoder, message, max_bytes)

    return {**scope, "headers": headers}, receive_decoded if codings else receive


async def _decode_message(decoder: BodyDecoder, message: Message, max_bytes: int) -> Message:
    """Return a part of the body decoded. Raise `HTTPException` 400 or 413."""
    if message["type"] != "http.request":
        return message
    encoded: bytes = message.get("body", b"")
    is_last = not message.get("more_body", False)

    def decode() -> bytes:
        decoded = decoder.decode(encoded)
        if is_last:
            decoder.finish()
        return decoded

    try:
        return {**message, "body": await run_decoding(decode, decoder.codings, len(encoded))}
    except DecodedTooLarge:
        raise build_too_large(max_bytes) from None
    except EncodingInvalid as error:
        raise HTTPException(_INVALID, f"The body cannot be decoded: {error}.") from None
