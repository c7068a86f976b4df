"""The ASGI app between the server and `dispatch`: it answers one HTTP request of DynamoDB's protocol.

The server calls the app once it has read the request head. The app reads the body within bounds, verifies the
caller, has `dispatch` decode the operation, runs it on the tables store and sends the bytes that `dispatch`
encoded. Errors that precede an operation (method, path, content type, target, signature) are raised here, in
DynamoDB's order and with its texts. The app is a plain ASGI callable without a framework: it adds a few
microseconds to a read, and must stay that fast.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import logging
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.core import limits
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import AccessRefused, HoldfastError, MalformedRequest, StoreClosed, UnknownOperation
from holdfast.core.http.content_coding import (
    CodingUnsupported,
    DecodedTooLarge,
    EncodingInvalid,
    decode_body,
    estimate_decoded_bytes,
    parse_codings,
)
from holdfast.core.http.request_counts import NO_STATUS, UNMATCHED
from holdfast.core.readiness import DEFAULT_TIMEOUT_S
from holdfast.core.rng import call_after_fork, draw_bytes
from holdfast.security.sigv4 import SignedRequest, Verifier, read_claim
from holdfast.stores.tables.port import Tables
from holdfast.wire.arns import DEFAULT_LOCATION, AwsLocation
from holdfast.wire.dispatch import decode, encode, encode_error
from holdfast.wire.http.compression import MIN_COMPRESSIBLE_BYTES, choose_encoding, compress
from holdfast.wire.http.operation_paths import PATHS as OPERATION_PATHS
from holdfast.wire.http.operation_paths import OperationPaths
from holdfast.wire.operations import CODECS

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderMap: TypeAlias = Mapping[bytes, bytes]

# The scope key of a server that can take a whole response at once: (status, headers, body) → taken.
WHOLE_RESPONSE: Final = "holdfast.whole_answer"
AMZ_JSON: Final = b"application/x-amz-json-1.0"
PLAIN_JSON: Final = b"application/json"
DESCRIBE_ENDPOINTS: Final = "DynamoDB_20120810.DescribeEndpoints"
ENDPOINT_MINUTES: Final = 1440
# The bytes of a rejected body to read and discard, so that a client that sends before it reads receives the
# error instead of a broken connection.
MAX_DISCARDED_BYTES: Final = 4 * limits.MAX_REQUEST_BODY_BYTES

log = logging.getLogger(__name__)


class HttpResponse(NamedTuple):
    """One response: its status, its body, and the headers in addition to the usual ones."""

    status: int
    body: bytes
    content_type: bytes | None = AMZ_JSON
    more_headers: tuple[tuple[bytes, bytes], ...] = ()


class App:
    """The ASGI app. With `credentials` (access key id → secret) it verifies signatures.

    Without them it accepts any well-formed signature and only takes the caller's region from it; its server
    checks the Host and Origin headers (`core/http/hosts.py`). `max_body_bytes` bounds one body;
    `max_total_body_bytes` bounds all bodies that arrived in pieces, or are decoded, and are not answered yet.
    `health_timeout_s` bounds the check of /health/ready.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        credentials: Mapping[str, str] | None = None,
        location: AwsLocation = DEFAULT_LOCATION,
        clock: Clock = SYSTEM_CLOCK,
        max_body_bytes: int = limits.MAX_REQUEST_BODY_BYTES,
        max_total_body_bytes: int = limits.MAX_REQUEST_BODIES_BYTES,
        health_timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> None:
        self._tables = tables
        self._verifier = Verifier(credentials, clock=clock) if credentials else None
        self._default_location = location
        self._location_cache: dict[bytes, AwsLocation] = {}
        self._max_body_bytes = max_body_bytes
        self._body_budget = _BodyBudget(max_total_body_bytes)
        self._operation_paths = OperationPaths(tables, timeout_s=health_timeout_s)
        self._counts = self._operation_paths.requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request. Refuse bodies that are too large, or too many at once; compress large
        responses.
        """
        if scope["type"] != "http":
            raise ValueError(f"Invalid scope type {scope['type']!r}: this app serves only HTTP.")
        headers = dict(scope["headers"])
        started, status = self._counts.start(), NO_STATUS
        try:
            status = await self._answer(scope, headers, receive, send)
        finally:
            self._counts.finish(started, scope["method"], _find_route(scope, headers), status)

    async def _answer(self, scope: Scope, headers: HeaderMap, receive: Receive, send: Send) -> int:
        """Send the response and return its status; `NO_STATUS` if the client is gone."""
        request_id = create_request_id()
        is_body_refused = False
        try:
            body, is_whole = await _read_first(receive, headers, self._max_body_bytes)
            if is_whole:
                response = await self._respond(scope, headers, body, request_id)
            else:
                response = await self._respond_to_chunks(scope, headers, body, receive, request_id)
        except _ClientDisconnected:
            return NO_STATUS
        except _BodyTooLarge:
            response, is_body_refused = _TOO_LARGE, True
        except _TooManyBodies:
            response, is_body_refused = _OVERLOADED, True
        except asyncio.CancelledError:
            # Only the end of the shutdown grace period cancels a request.
            response = _build_error_response(
                StoreClosed("The server is shutting down."), AMZ_JSON, request_id
            )
        if is_body_refused:
            # Outside the handler, where no exception keeps a reference to the body read so far.
            linger = response is _OVERLOADED or b"expect" not in headers
            await _refuse_body(response, receive, send, request_id, linger=linger)
            return response.status
        if len(response.body) >= MIN_COMPRESSIBLE_BYTES and b"accept-encoding" in headers:
            response = await _compress_response(response, headers[b"accept-encoding"])
        await _send(scope, send, response, request_id)
        return response.status

    async def _respond_to_chunks(
        self, scope: Scope, headers: HeaderMap, first: bytes, receive: Receive, request_id: bytes
    ) -> HttpResponse:
        """Read the rest of a body that arrived in pieces, within the memory budget, and return the
        response.
        """
        with self._body_budget.reserve() as resize:
            body = await _read_rest(receive, bytearray(first), self._max_body_bytes, resize)
            return await self._respond(scope, headers, body, request_id)

    async def _respond(
        self, scope: Scope, headers: HeaderMap, body: bytes, request_id: bytes
    ) -> HttpResponse:
        """Return the response to a complete request: check the method, path and content type first."""
        content_type = headers.get(b"content-type", b"")
        if content_type != AMZ_JSON:
            content_type = content_type.partition(b";")[0].strip()
        if scope["method"] != "POST" or scope["path"] != "/":
            response = await self._respond_without_operation(scope, headers)
        elif body and content_type not in _JSON_TYPES:
            response = _NOT_FOUND
        else:
            response_type = AMZ_JSON if content_type == AMZ_JSON else PLAIN_JSON
            response = await self._run_operation(scope, headers, body, response_type, request_id)
        if b"origin" in headers and self._verifier is not None:
            return response._replace(more_headers=response.more_headers + _ANY_ORIGIN)
        return response

    async def _run_operation(
        self, scope: Scope, headers: HeaderMap, body: bytes, content_type: bytes, request_id: bytes
    ) -> HttpResponse:
        """Authenticate the caller, decode and run the operation, and encode its result or error."""
        target = headers.get(b"x-amz-target", b"").decode("latin-1")
        try:
            location = self._authenticate(scope, headers, body, target)
            if b"content-encoding" in headers:
                return await self._run_encoded(scope, target, body, location, content_type)
            return await self._run_decoded(target, body, location, content_type)
        except _BodyTooLarge:
            return _TOO_LARGE
        except _TooManyBodies:
            return _OVERLOADED
        except UnknownOperation as unknown:
            # No store can answer this operation: only the request says which host name the client used.
            if target == DESCRIBE_ENDPOINTS and body:
                return HttpResponse(200, _encode_endpoints(headers.get(b"host", b"")), content_type)
            return _build_error_response(unknown, content_type, request_id)
        except Exception as error:
            return _build_error_response(error, content_type, request_id)

    async def _run_encoded(
        self, scope: Scope, target: str, body: bytes, location: AwsLocation, content_type: bytes
    ) -> HttpResponse:
        """Decode the body by its Content-Encoding, within the memory budget, and run the operation in it.

        Raise `MalformedRequest` for damaged data and for an encoding other than gzip, deflate and identity.
        """
        with self._body_budget.reserve() as resize:
            try:
                codings = parse_codings(
                    value for name, value in scope["headers"] if name == b"content-encoding"
                )
                resize(estimate_decoded_bytes(codings, len(body), self._max_body_bytes))
                body = await decode_body(codings, body, self._max_body_bytes)
            except DecodedTooLarge:
                raise _BodyTooLarge from None
            except (CodingUnsupported, EncodingInvalid) as error:
                # DynamoDB answers 500 here. The client sent an unreadable body, so this server answers 400.
                raise MalformedRequest(f"The request body cannot be decompressed: {error}") from None
            resize(len(body))
            return await self._run_decoded(target, body, location, content_type)

    async def _run_decoded(
        self, target: str, body: bytes, location: AwsLocation, content_type: bytes
    ) -> HttpResponse:
        """Run the operation that the body describes, and return its result."""
        codec, operation = decode(target, body)
        result = await self._tables.run(operation)
        return HttpResponse(200, encode(codec, operation, result, location), content_type)

    # --- authentication -------------------------------------------------------------------------------------

    def _authenticate(self, scope: Scope, headers: HeaderMap, body: bytes, target: str) -> AwsLocation:
        """Check the signature and return the caller's region and account. Raise `AccessRefused` if it is
        invalid.
        """
        if self._verifier is None:
            cached = self._find_cached_location(scope, headers)
            if cached is not None:
                return cached
        request = SignedRequest(
            scope["method"],
            scope["raw_path"].decode("latin-1"),
            scope["query_string"],
            scope["headers"],
            body,
        )
        try:
            claim = read_claim(request) if self._verifier is None else self._verifier.verify(request)
        except AccessRefused:
            _check_before_signature(target, body, headers)
            raise
        location = self._get_location(claim.region)
        if self._verifier is None and not claim.in_query:
            self._cache_location(headers[b"authorization"].partition(b", SignedHeaders=")[0], location)
        return location

    def _find_cached_location(self, scope: Scope, headers: HeaderMap) -> AwsLocation | None:
        """Return the cached location of a credential. Without verification the credential alone decides, and
        a client keeps sending the same one.
        """
        if scope["query_string"] or b"x-amz-date" not in headers:
            return None
        credential, _, rest = headers.get(b"authorization", b"").partition(b", SignedHeaders=")
        return self._location_cache.get(credential) if b", Signature=" in rest else None

    def _cache_location(self, credential: bytes, location: AwsLocation) -> None:
        """Cache the location of a credential; a full cache is cleared first."""
        if len(self._location_cache) >= _MAX_CACHED_LOCATIONS:
            self._location_cache.clear()
        self._location_cache[credential] = location

    def _get_location(self, region: str | None) -> AwsLocation:
        """Return the location with this region, or the default one if None."""
        return (
            self._default_location if region is None else AwsLocation(region, self._default_location.account)
        )

    # --- requests without an operation ----------------------------------------------------------------------

    async def _respond_without_operation(self, scope: Scope, headers: HeaderMap) -> HttpResponse:
        """Answer a health check, a request for the metrics or a CORS preflight; any other gets 404."""
        if scope["method"] == "GET" and scope["path"] in OPERATION_PATHS:
            client, host = scope.get("client"), headers.get(b"host", b"")
            return HttpResponse(*await self._operation_paths.answer(scope["path"], client, host))
        if scope["path"] == "/" and scope["method"] == "GET":
            # DynamoDB sends this trailing space too.
            return HttpResponse(200, b"healthy: " + headers.get(b"host", b"") + b" ", None)
        if scope["method"] == "OPTIONS" and b"origin" in headers and self._verifier is not None:
            return _build_preflight_response(headers)
        return _NOT_FOUND


def _find_route(scope: Scope, headers: HeaderMap) -> str:
    """Return the operation that a request is for, or its path if that is one of the server's own."""
    path: str = scope["path"]
    if scope["method"] == "POST":
        target = headers.get(b"x-amz-target", b"") if path == "/" else b""
        return _OPERATION_NAMES.get(target, UNMATCHED)
    return path if path == "/" or path in OPERATION_PATHS else UNMATCHED


def _encode_endpoints(host: bytes) -> bytes:
    """Encode the response of DescribeEndpoints: the host name that the client used."""
    endpoint = {"Address": host.decode("latin-1"), "CachePeriodInMinutes": ENDPOINT_MINUTES}
    return msgspec.json.encode({"Endpoints": [endpoint]})


def create_request_id() -> bytes:
    """Return an id of 52 upper-case letters and digits: a random id of this process, and a counter."""
    return b"%s%013d" % (_process_id, next(_request_count))


def build_response_headers(body: bytes, request_id: bytes) -> list[tuple[bytes, bytes]]:
    """Return the headers of every response: request id, CRC-32 of the body, and content length."""
    return [
        (b"x-amzn-requestid", request_id),
        (b"x-amz-crc32", b"%d" % zlib.crc32(body)),
        (b"content-length", b"%d" % len(body)),
    ]


# --- reading the body ---------------------------------------------------------------------------------------


class _ClientDisconnected(Exception):
    """The client disconnected and will not read a response."""


class _BodyTooLarge(Exception):
    """The body, or its declared length, is larger than any legal request."""


class _TooManyBodies(Exception):
    """The bodies being read are together larger than the server's budget."""


class _BodyBudget:
    """The memory budget that all bodies arriving in pieces share; small ones are not counted."""

    def __init__(self, max_bytes: int) -> None:
        self._bytes_left = max_bytes

    @contextlib.contextmanager
    def reserve(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that sets the size of one body; its share of the budget is released at the end.

        The function raises `_TooManyBodies` if the budget is exhausted.
        """
        held = 0

        def resize(body_bytes: int) -> None:
            nonlocal held
            wanted = body_bytes if body_bytes > limits.REQUEST_BODY_BYTES_FREE else 0
            if wanted - held > self._bytes_left:
                raise _TooManyBodies
            self._bytes_left -= wanted - held
            held = wanted

        try:
            yield resize
        finally:
            self._bytes_left += held


async def _read_first(receive: Receive, headers: HeaderMap, max_bytes: int) -> tuple[bytes, bool]:
    """Return the first part of the body, and whether it is the whole body.

    Raise `_BodyTooLarge` for its declared or actual length, `_ClientDisconnected` if the client is gone.
    """
    length = headers.get(b"content-length")
    if length is not None and int(length) > max_bytes:
        raise _BodyTooLarge
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _ClientDisconnected
    body: bytes = message["body"]
    if len(body) > max_bytes:
        raise _BodyTooLarge
    return body, not message["more_body"]


async def _read_rest(
    receive: Receive, body: bytearray, max_bytes: int, resize: Callable[[int], None]
) -> bytes:
    """Read the body to its end and return it. Call `resize` with its size after each part."""
    resize(len(body))
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientDisconnected
        body += message["body"]
        if len(body) > max_bytes:
            raise _BodyTooLarge
        resize(len(body))
        if not message["more_body"]:
            return bytes(body)


# --- errors -------------------------------------------------------------------------------------------------


def _check_before_signature(target: str, body: bytes, headers: HeaderMap) -> None:
    """Raise for malformed JSON or an unknown target, which DynamoDB checks before the signature. The app
    verifies first, because nearly every signature is valid, and calls this only when one is not.
    """
    if body and b"content-encoding" not in headers:
        try:
            msgspec.json.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise MalformedRequest("") from None
    if target not in CODECS and target != DESCRIBE_ENDPOINTS:
        raise UnknownOperation("")


def _build_error_response(error: BaseException, content_type: bytes, request_id: bytes) -> HttpResponse:
    """Encode an error as a response. A status of 500 or above is logged, with a traceback if unexpected."""
    status, body = encode_error(error)
    if status >= _SERVER_ERROR_STATUS:
        expected = isinstance(error, HoldfastError)
        log.error("Request %s failed: %s", request_id.decode(), error, exc_info=None if expected else error)
    return HttpResponse(status, body, content_type)


async def _refuse_body(
    response: HttpResponse, receive: Receive, send: Send, request_id: bytes, *, linger: bool
) -> None:
    """Send the error response before the body was read. With `linger`, read and discard the rest of the body
    up to a limit, so that the client can read the response.
    """
    await send(_build_response_start(response, request_id))
    await send({"type": "http.response.body", "body": response.body, "more_body": True})
    discarded = 0
    while linger and discarded < MAX_DISCARDED_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect" or not message["more_body"]:
            break
        discarded += len(message["body"])
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _build_preflight_response(headers: HeaderMap) -> HttpResponse:
    """Answer a CORS preflight: allow the requested method and headers."""
    allowed = (
        (b"access-control-allow-headers", headers.get(b"access-control-request-headers")),
        (b"access-control-allow-methods", headers.get(b"access-control-request-method")),
        (b"access-control-max-age", b"172800"),
    )
    return HttpResponse(200, b"", None, tuple((name, value) for name, value in allowed if value is not None))


# --- sending ------------------------------------------------------------------------------------------------


async def _compress_response(response: HttpResponse, accept_encoding: bytes) -> HttpResponse:
    """Return the response compressed with an encoding that the client accepts, or unchanged if there is
    none.
    """
    encoding = choose_encoding(accept_encoding)
    if encoding is None:
        return response
    # In a thread: a page of 1 MB takes milliseconds, and other requests should not wait for it.
    body = await asyncio.to_thread(compress, response.body, encoding)
    return response._replace(
        body=body, more_headers=(*response.more_headers, (b"content-encoding", encoding))
    )


async def _send(scope: Scope, send: Send, response: HttpResponse, request_id: bytes) -> None:
    """Send the response, in one piece if the server can: one write instead of two, and no header-by-header
    copy.
    """
    send_whole = scope.get(WHOLE_RESPONSE)
    if send_whole is not None and response.status in _PLAIN_STATUSES and response.content_type is not None:
        head = b"x-amzn-requestid: %s\r\nx-amz-crc32: %d\r\ncontent-length: %d\r\ncontent-type: %s\r\n" % (
            request_id,
            zlib.crc32(response.body),
            len(response.body),
            response.content_type,
        )
        for header in response.more_headers:
            head += b"%s: %s\r\n" % header
        if scope["method"] == "POST" and send_whole(response.status, head, response.body):
            return
    await send(_build_response_start(response, request_id))
    await send({"type": "http.response.body", "body": response.body, "more_body": False})


def _build_response_start(response: HttpResponse, request_id: bytes) -> MutableMapping[str, Any]:
    """Return the ASGI message with the status and the headers of a response."""
    headers = build_response_headers(response.body, request_id)
    if response.content_type is not None:
        headers.append((b"content-type", response.content_type))
    headers += response.more_headers
    return {"type": "http.response.start", "status": response.status, "headers": headers}


_request_count: Final = itertools.count()
_process_id: bytes


def _renew_process_id() -> None:
    """Draw 39 letters and digits: forked servers must not give two requests one id."""
    global _process_id  # noqa: PLW0603
    _process_id = base64.b32encode(draw_bytes(25))[:39]


_renew_process_id()
call_after_fork(_renew_process_id)
_OPERATION_NAMES: Final = {name.encode(): name.partition(".")[2] for name in CODECS}
_MAX_CACHED_LOCATIONS: Final = 256
_SERVER_ERROR_STATUS: Final = 500
_PLAIN_STATUSES: Final = frozenset({200, 400})
_JSON_TYPES: Final = (AMZ_JSON, PLAIN_JSON)
_NOT_FOUND: Final = HttpResponse(404, b"<UnknownOperationException/>\n", None)
_TOO_LARGE: Final = HttpResponse(
    413,
    b'{"__type":"com.amazon.coral.service#RequestTooLargeException",'
    b'"message":"Request size exceeded %d bytes"}' % limits.MAX_REQUEST_BODY_BYTES,
    AMZ_JSON,
    ((b"connection", b"close"),),
)
_OVERLOADED: Final = HttpResponse(
    503,
    b'{"__type":"com.amazon.coral.service#ServiceUnavailable",'
    b'"message":"Too many large requests are being read at once. Retry in a moment."}',
    AMZ_JSON,
    ((b"connection", b"close"),),
)
# Allow other origins only if signatures are verified: otherwise any page in a browser on this machine could
# read the tables.
_ANY_ORIGIN: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date"),
)
