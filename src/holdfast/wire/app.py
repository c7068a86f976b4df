"""The ASGI app between the server and `dispatch`: it answers one HTTP request of DynamoDB's protocol.

The server calls the app once it has read the request head. The app reads the body within bounds, verifies the
caller, has `dispatch` decode the operation, runs it on the tables store and sends the bytes that `dispatch`
encoded. Errors that precede an operation (method, path, content type, target, signature) are raised here, in
DynamoDB's order and with its texts. The app is a plain ASGI callable without a framework: it adds a few
microseconds to a read, and must stay that fast.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import secrets
import zlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from holdfast.core import limits
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import AccessRefused, HoldfastError, MalformedRequest, StoreClosed, UnknownOperation
from holdfast.security.hosts import is_local_host
from holdfast.security.sigv4 import SignedRequest, Verifier, read_claim
from holdfast.stores.tables.port import Tables
from holdfast.wire.arns import HERE, Place
from holdfast.wire.compression import PACKED_BYTES_MIN, chosen_encoding, packed
from holdfast.wire.dispatch import decode, encode, error_body
from holdfast.wire.operations import CODECS

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
HeaderMap: TypeAlias = Mapping[bytes, bytes]

# The scope key of a server that can take a whole response at once: (status, headers, body) → taken.
WHOLE_ANSWER: Final = "holdfast.whole_answer"
AMZ_JSON: Final = b"application/x-amz-json-1.0"
PLAIN_JSON: Final = b"application/json"
DESCRIBE_ENDPOINTS: Final = "DynamoDB_20120810.DescribeEndpoints"
ENDPOINT_MINUTES: Final = 1440
# The bytes of a rejected body to read and discard, so that a client that sends before it reads receives the
# error instead of a broken connection.
DISCARDED_BYTES_MAX: Final = 4 * limits.REQUEST_BODY_BYTES_MAX

log = logging.getLogger(__name__)


class Reply(NamedTuple):
    status: int
    body: bytes
    content_type: bytes | None = AMZ_JSON
    more_headers: tuple[tuple[bytes, bytes], ...] = ()


class App:
    """The ASGI app. With `credentials` (access key id → secret) it verifies signatures.

    Without them it accepts any well-formed signature and only takes the caller's region from it, and the Host
    header must name this machine. `body_bytes_max` bounds one body; `bodies_bytes_max` bounds all bodies that
    arrived in pieces and are not answered yet.
    """

    def __init__(
        self,
        tables: Tables,
        *,
        credentials: Mapping[str, str] | None = None,
        place: Place = HERE,
        clock: Clock = SYSTEM_CLOCK,
        body_bytes_max: int = limits.REQUEST_BODY_BYTES_MAX,
        bodies_bytes_max: int = limits.REQUEST_BODIES_BYTES_MAX,
    ) -> None:
        self._tables = tables
        self._verifier = Verifier(credentials, clock=clock) if credentials else None
        self._home = place
        self._credentials_seen: dict[bytes, Place] = {}
        # Browsers always send a Host header, so a request without one is not from a browser.
        self._hosts_seen: set[bytes] = {b""}
        self._body_bytes_max = body_bytes_max
        self._bodies = _Bodies(bodies_bytes_max)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"this app speaks HTTP only, not {scope['type']}")
        request_id = new_request_id()
        headers = dict(scope["headers"])
        is_body_refused = False
        try:
            body, is_whole = await _read_first(receive, headers, self._body_bytes_max)
            if is_whole:
                reply = await self._reply(scope, headers, body, request_id)
            else:
                reply = await self._reply_to_pieces(scope, headers, body, receive, request_id)
        except _ClientGone:
            return
        except _BodyTooLarge:
            reply, is_body_refused = _TOO_LARGE, True
        except _TooManyBodies:
            reply, is_body_refused = _TOO_BUSY, True
        except asyncio.CancelledError:
            # Only the end of the shutdown grace period cancels a request.
            reply = _error_reply(StoreClosed("The server is shutting down."), AMZ_JSON, request_id)
        if is_body_refused:
            # Outside the handler, where no exception keeps a reference to the body read so far.
            linger = reply is _TOO_BUSY or b"expect" not in headers
            await _refuse_body(reply, receive, send, request_id, linger=linger)
            return
        if len(reply.body) >= PACKED_BYTES_MIN and b"accept-encoding" in headers:
            reply = await _packed(reply, headers[b"accept-encoding"])
        await _send(scope, send, reply, request_id)

    async def _reply_to_pieces(
        self, scope: Scope, headers: HeaderMap, first: bytes, receive: Receive, request_id: bytes
    ) -> Reply:
        with self._bodies.share() as grow:
            body = await _read_rest(receive, bytearray(first), self._body_bytes_max, grow)
            return await self._reply(scope, headers, body, request_id)

    async def _reply(self, scope: Scope, headers: HeaderMap, body: bytes, request_id: bytes) -> Reply:
        if self._verifier is None and not self._is_called_by_our_name(headers.get(b"host", b"")):
            return _NOT_OUR_NAME
        content_type = headers.get(b"content-type", b"")
        if content_type != AMZ_JSON:
            content_type = content_type.partition(b";")[0].strip()
        if scope["method"] != "POST" or scope["path"] != "/":
            reply = self._not_an_operation(scope, headers)
        elif body and content_type not in _JSON_TYPES:
            reply = _UNKNOWN_PAGE
        else:
            answer_type = AMZ_JSON if content_type == AMZ_JSON else PLAIN_JSON
            reply = await self._operation(scope, headers, body, answer_type, request_id)
        if b"origin" in headers and self._verifier is not None:
            return reply._replace(more_headers=reply.more_headers + _ANY_ORIGIN)
        return reply

    async def _operation(
        self, scope: Scope, headers: HeaderMap, body: bytes, answer_type: bytes, request_id: bytes
    ) -> Reply:
        target = headers.get(b"x-amz-target", b"").decode("latin-1")
        try:
            place = self._place_of(scope, headers, body, target)
            if b"content-encoding" in headers:
                body = _decompressed(headers[b"content-encoding"], body, self._body_bytes_max)
            codec, operation = decode(target, body)
            result = await self._tables.run(operation)
            return Reply(200, encode(codec, operation, result, place), answer_type)
        except _BodyTooLarge:
            return _TOO_LARGE
        except UnknownOperation as unknown:
            # No store can answer this operation: only the request says which host name the client used.
            if target == DESCRIBE_ENDPOINTS and body:
                return Reply(200, _endpoints(headers.get(b"host", b"")), answer_type)
            return _error_reply(unknown, answer_type, request_id)
        except Exception as error:
            return _error_reply(error, answer_type, request_id)

    # --- authentication -------------------------------------------------------------------------------------

    def _is_called_by_our_name(self, host: bytes) -> bool:
        if host in self._hosts_seen:
            return True
        if not is_local_host(host):
            return False
        if len(self._hosts_seen) >= _HOSTS_MAX:
            self._hosts_seen = {b""}
        self._hosts_seen.add(host)
        return True

    def _place_of(self, scope: Scope, headers: HeaderMap, body: bytes, target: str) -> Place:
        """Check the signature and return the caller's region and account."""
        if self._verifier is None:
            known = self._known_place(scope, headers)
            if known is not None:
                return known
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
        place = self._place_in(claim.region)
        if self._verifier is None and not claim.in_query:
            self._remember(headers[b"authorization"].partition(b", SignedHeaders=")[0], place)
        return place

    def _known_place(self, scope: Scope, headers: HeaderMap) -> Place | None:
        """Return the cached place of a credential. Without verification the credential alone decides, and a
        client keeps sending the same one.
        """
        if scope["query_string"] or b"x-amz-date" not in headers:
            return None
        credential, _, rest = headers.get(b"authorization", b"").partition(b", SignedHeaders=")
        return self._credentials_seen.get(credential) if b", Signature=" in rest else None

    def _remember(self, credential: bytes, place: Place) -> None:
        if len(self._credentials_seen) >= _PLACES_MAX:
            self._credentials_seen.clear()
        self._credentials_seen[credential] = place

    def _place_in(self, region: str | None) -> Place:
        return self._home if region is None else Place(region, self._home.account)

    # --- requests without an operation ----------------------------------------------------------------------

    def _not_an_operation(self, scope: Scope, headers: HeaderMap) -> Reply:
        if scope["path"] == "/" and scope["method"] == "GET":
            # DynamoDB sends this trailing space too.
            return Reply(200, b"healthy: " + headers.get(b"host", b"") + b" ", None)
        if scope["method"] == "OPTIONS" and b"origin" in headers and self._verifier is not None:
            return _preflight(headers)
        return _UNKNOWN_PAGE


def _endpoints(host: bytes) -> bytes:
    endpoint = {"Address": host.decode("latin-1"), "CachePeriodInMinutes": ENDPOINT_MINUTES}
    return msgspec.json.encode({"Endpoints": [endpoint]})


def new_request_id() -> bytes:
    """Return 52 upper-case letters and digits: an id of this process, and a counter."""
    return b"%s%013d" % (_PROCESS_ID, next(_request_count))


def answer_headers(body: bytes, request_id: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b"x-amzn-requestid", request_id),
        (b"x-amz-crc32", b"%d" % zlib.crc32(body)),
        (b"content-length", b"%d" % len(body)),
    ]


# --- reading the body ---------------------------------------------------------------------------------------


class _ClientGone(Exception):
    """The client disconnected and will not read a response."""


class _BodyTooLarge(Exception):
    """The body, or its declared length, is larger than any legal request."""


class _TooManyBodies(Exception):
    """The bodies being read are together larger than the server's budget."""


class _Bodies:
    """The memory budget that all large bodies share."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_left = bytes_max

    @contextlib.contextmanager
    def share(self) -> Iterator[Callable[[int], None]]:
        """Reserve one body's part of the budget. It grows with the body and is released at the end."""
        held = 0

        def grow(body_bytes: int) -> None:
            nonlocal held
            more = body_bytes - held
            if body_bytes <= limits.REQUEST_BODY_BYTES_FREE:
                return
            if more > self._bytes_left:
                raise _TooManyBodies
            self._bytes_left -= more
            held = body_bytes

        try:
            yield grow
        finally:
            self._bytes_left += held


async def _read_first(receive: Receive, headers: HeaderMap, bytes_max: int) -> tuple[bytes, bool]:
    """Return the part of the body that has arrived, and whether it is complete."""
    length = headers.get(b"content-length")
    if length is not None and int(length) > bytes_max:
        raise _BodyTooLarge
    message = await receive()
    if message["type"] == "http.disconnect":
        raise _ClientGone
    body: bytes = message["body"]
    if len(body) > bytes_max:
        raise _BodyTooLarge
    return body, not message["more_body"]


async def _read_rest(receive: Receive, body: bytearray, bytes_max: int, grow: Callable[[int], None]) -> bytes:
    grow(len(body))
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGone
        body += message["body"]
        if len(body) > bytes_max:
            raise _BodyTooLarge
        grow(len(body))
        if not message["more_body"]:
            return bytes(body)


def _decompressed(encoding: bytes, body: bytes, bytes_max: int) -> bytes:
    """Decode the body by its Content-Encoding: gzip or identity, as in DynamoDB. Raise `MalformedRequest` for
    any other encoding and for damaged data.
    """
    encoding = encoding.strip().lower()
    if encoding == b"identity":
        return body
    if encoding != b"gzip":
        raise _undecodable(f"Content-Encoding {encoding.decode('latin-1')}")
    unpacked = bytearray()
    try:
        while True:
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            unpacked += member.decompress(body, bytes_max + 1 - len(unpacked))
            if len(unpacked) > bytes_max:
                raise _BodyTooLarge
            if not member.eof:
                raise _undecodable("gzip that ends too early")
            body = member.unused_data
            if not body:
                return bytes(unpacked)
    except zlib.error as error:
        raise _undecodable(f"gzip: {error}") from None


def _undecodable(what: str) -> MalformedRequest:
    # DynamoDB answers 500 here. The client sent an unreadable body, so this server answers 400.
    return MalformedRequest(f"The request body could not be unpacked: {what}")


# --- errors -------------------------------------------------------------------------------------------------


def _check_before_signature(target: str, body: bytes, headers: HeaderMap) -> None:
    """Check the JSON and the target, which DynamoDB checks before the signature. The app verifies first,
    because nearly every signature is valid, and calls this only when one is not.
    """
    if body and b"content-encoding" not in headers:
        try:
            msgspec.json.decode(body)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise MalformedRequest("") from None
    if target not in CODECS and target != DESCRIBE_ENDPOINTS:
        raise UnknownOperation("")


def _error_reply(error: BaseException, answer_type: bytes, request_id: bytes) -> Reply:
    status, body = error_body(error)
    if status >= _SERVER_FAULT:
        expected = isinstance(error, HoldfastError)
        log.error("request %s: %s", request_id.decode(), error, exc_info=None if expected else error)
    return Reply(status, body, answer_type)


async def _refuse_body(
    refusal: Reply, receive: Receive, send: Send, request_id: bytes, *, linger: bool
) -> None:
    await send(_start_of(refusal, request_id))
    await send({"type": "http.response.body", "body": refusal.body, "more_body": True})
    discarded = 0
    while linger and discarded < DISCARDED_BYTES_MAX:
        message = await receive()
        if message["type"] == "http.disconnect" or not message["more_body"]:
            break
        discarded += len(message["body"])
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def _preflight(headers: HeaderMap) -> Reply:
    asked = (
        (b"access-control-allow-headers", headers.get(b"access-control-request-headers")),
        (b"access-control-allow-methods", headers.get(b"access-control-request-method")),
        (b"access-control-max-age", b"172800"),
    )
    return Reply(200, b"", None, tuple((name, value) for name, value in asked if value is not None))


# --- sending ------------------------------------------------------------------------------------------------


async def _packed(reply: Reply, accepted: bytes) -> Reply:
    encoding = chosen_encoding(accepted)
    if encoding is None:
        return reply
    # In a thread: a page of 1 MB takes milliseconds, and other requests should not wait for it.
    body = await asyncio.to_thread(packed, reply.body, encoding)
    return reply._replace(body=body, more_headers=(*reply.more_headers, (b"content-encoding", encoding)))


async def _send(scope: Scope, send: Send, reply: Reply, request_id: bytes) -> None:
    """Send the response, in one piece if the server can: one write instead of two, and no header-by-header
    copy.
    """
    whole = scope.get(WHOLE_ANSWER)
    if whole is not None and reply.status in _PLAIN_STATUSES and reply.content_type is not None:
        head = b"x-amzn-requestid: %s\r\nx-amz-crc32: %d\r\ncontent-length: %d\r\ncontent-type: %s\r\n" % (
            request_id,
            zlib.crc32(reply.body),
            len(reply.body),
            reply.content_type,
        )
        for header in reply.more_headers:
            head += b"%s: %s\r\n" % header
        if scope["method"] == "POST" and whole(reply.status, head, reply.body):
            return
    await send(_start_of(reply, request_id))
    await send({"type": "http.response.body", "body": reply.body, "more_body": False})


def _start_of(reply: Reply, request_id: bytes) -> MutableMapping[str, Any]:
    headers = answer_headers(reply.body, request_id)
    if reply.content_type is not None:
        headers.append((b"content-type", reply.content_type))
    headers += reply.more_headers
    return {"type": "http.response.start", "status": reply.status, "headers": headers}


_PROCESS_ID: Final = "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(39)).encode()
_request_count: Final = itertools.count()
_PLACES_MAX: Final = 256
_HOSTS_MAX: Final = 64
_SERVER_FAULT: Final = 500
_PLAIN_STATUSES: Final = frozenset({200, 400})
_JSON_TYPES: Final = (AMZ_JSON, PLAIN_JSON)
_UNKNOWN_PAGE: Final = Reply(404, b"<UnknownOperationException/>\n", None)
_TOO_LARGE: Final = Reply(
    413,
    b'{"__type":"com.amazon.coral.service#RequestTooLargeException",'
    b'"message":"Request size exceeded %d bytes"}' % limits.REQUEST_BODY_BYTES_MAX,
    AMZ_JSON,
    ((b"connection", b"close"),),
)
_TOO_BUSY: Final = Reply(
    503,
    b'{"__type":"com.amazon.coral.service#ServiceUnavailable",'
    b'"message":"Too many large requests are being read at once. Try again in a moment."}',
    AMZ_JSON,
    ((b"connection", b"close"),),
)
_NOT_OUR_NAME: Final = Reply(
    403,
    b'{"__type":"com.amazon.coral.service#AccessDeniedException",'
    b'"message":"Without credentials this server answers only to names of its own machine, such as localhost and '
    b"127.0.0.1. Call it by one, or configure credentials (HOLDFAST_ACCESS_KEY_ID and HOLDFAST_SECRET_ACCESS_KEY, "
    b'or a credentials file)."}',
)
# Allow other origins only if signatures are verified: otherwise any page in a browser on this machine could
# read the tables.
_ANY_ORIGIN: Final = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-expose-headers", b"x-amzn-RequestId,x-amzn-ErrorType,x-amzn-ErrorMessage,Date"),
)
