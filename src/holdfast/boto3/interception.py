"""The interception of boto3's requests: an engine answers DynamoDB's in this process.

Two places are hooked, because neither is enough. A handler of botocore's event `before-send` runs before the
handlers of other mocks, but only in sessions created after this import; `URLLib3Session.send` is called by
every client. A client without credentials would fail before that, so its signer gets fake ones.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import urlsplit

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError
from holdfast.core.http.addresses import is_loopback
from holdfast.operations.tables import Operation
from holdfast.wire.arns import DEFAULT_LOCATION, AwsLocation
from holdfast.wire.dispatch import decode, encode, encode_error
from holdfast.wire.http.app import build_response_headers, create_request_id

with explain_missing("holdfast.boto3", "aws"):
    import boto3  # type: ignore[import, unused-ignore]
    from botocore.auth import AUTH_TYPE_MAPS  # type: ignore[import, unused-ignore]
    from botocore.awsrequest import AWSResponse  # type: ignore[import, unused-ignore]
    from botocore.credentials import Credentials  # type: ignore[import, unused-ignore]
    from botocore.handlers import BUILTIN_HANDLERS  # type: ignore[import, unused-ignore]
    from botocore.httpsession import URLLib3Session  # type: ignore[import, unused-ignore]

R = TypeVar("R")

FAKE_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
FAKE_REGION: Final = {"AWS_DEFAULT_REGION": "us-east-1"}


class BlockingTables(Protocol):
    """The part of the embedded engine that a synchronous caller needs."""

    def run_blocking(self, operation: Operation[R], /) -> R: ...


# --- answering one request ----------------------------------------------------------------------------------


class _Body:
    """A response body with urllib3's interface."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> tuple[bytes, ...]:
        return (self._content,)

    def read(self, *_: Any, **__: Any) -> bytes:
        """Return the whole content once, then nothing."""
        content, self._content = self._content, b""
        return content


def _respond(tables: BlockingTables, request: Any) -> AWSResponse:
    """Run the request on the tables and return the response as botocore expects it."""
    status, body = _run(tables, request)
    headers = {
        name.decode(): value.decode() for name, value in build_response_headers(body, create_request_id())
    }
    headers["content-type"] = "application/x-amz-json-1.0"
    return AWSResponse(request.url, status, headers, _Body(body))


def _run(tables: BlockingTables, request: Any) -> tuple[int, bytes]:
    # Only errors that the service has a name for become an answer. Any other error propagates through boto3:
    # in process a traceback helps, and boto3 would retry a 500 for half a minute.
    """Return the status and the body of the response."""
    try:
        codec, operation = decode(_to_str(request.headers["X-Amz-Target"]), _to_bytes(request.body))
        result = tables.run_blocking(operation)
        return 200, encode(
            codec, operation, result, _parse_signing_scope(_to_str(request.headers.get("Authorization", "")))
        )
    except HoldfastError as error:
        return encode_error(error)


def _parse_signing_scope(authorization: str) -> AwsLocation:
    """Return the AWS location in the request's signature, or the default one if it is not signed."""
    scope = _SCOPE.search(authorization)
    return _get_location(scope[1]) if scope else DEFAULT_LOCATION


@functools.lru_cache(maxsize=64)
def _get_location(region: str) -> AwsLocation:
    """Return the AWS location of a region, one object per region."""
    return AwsLocation(region)


def _to_str(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _to_bytes(body: str | bytes | bytearray | None) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return bytes(body or b"")


# --- replacing the network ----------------------------------------------------------------------------------


class Interception:
    """The open contexts of this process, innermost last, and the patches that are active meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[BlockingTables, ...] = ()
        self._refusals = 0
        self._changes = contextlib.ExitStack()

    @contextlib.contextmanager
    def activate(self, tables: BlockingTables, *, refuses_others: bool = False) -> Iterator[None]:
        """Answer requests with these tables for the length of the context.

        With `refuses_others`, a request to another service raises instead of leaving the process.
        """
        with self._lock:
            if not self._open:
                self._changes.enter_context(_patch_send(self))
                self._changes.enter_context(_patch_signer())
                self._changes.enter_context(_provide_fake_credentials())
            self._open = (*self._open, tables)
            self._refusals += refuses_others
        try:
            yield
        finally:
            with self._lock:
                self._open = _remove_last(self._open, tables)
                self._refusals -= refuses_others
                if not self._open:
                    self._changes.close()

    def answer(self, request: Any, **_: Any) -> AWSResponse | None:
        """Handle `before-send`: return a response, or None to let the request go to the network."""
        tables = self._open
        if not tables or _is_local(request.url):
            return None
        return _respond(tables[-1], request)

    def refuse_other_service(self, request: Any) -> None:
        """Raise `RuntimeError` if the request is for an AWS service and a context refuses other services."""
        if not self._refusals or _is_local(request.url):
            return
        host = urlsplit(request.url).hostname or ""
        scope = _SERVICE.search(_to_str(request.headers.get("Authorization", "")))
        if scope or host.endswith(_AWS_DOMAINS):
            raise RuntimeError(
                f"holdfast.boto3.mock_aws answers DynamoDB only, not {scope[1] if scope else host}. Nothing "
                "was sent. Keep moto for that service and use both in the test: import moto's as `from moto "
                "import mock_aws as moto_aws`."
            )


def _remove_last(
    open_tables: tuple[BlockingTables, ...], tables: BlockingTables
) -> tuple[BlockingTables, ...]:
    """Return the open contexts without the innermost one of these tables."""
    last = max(index for index, each in enumerate(open_tables) if each is tables)
    return open_tables[:last] + open_tables[last + 1 :]


@contextlib.contextmanager
def _patch_send(interception: Interception) -> Iterator[None]:
    """Have `URLLib3Session.send` answer DynamoDB requests in process."""
    send = URLLib3Session.send

    @functools.wraps(send)
    def send_or_answer(session: Any, request: Any) -> Any:
        if _to_str(request.headers.get("X-Amz-Target", "")).startswith("DynamoDB"):
            response = interception.answer(request)
            if response is not None:
                return response
        # Here, because another mock answers before a request is sent.
        interception.refuse_other_service(request)
        return send(session, request)

    with _patch_attribute(URLLib3Session, "send", send_or_answer):
        yield


@contextlib.contextmanager
def _patch_signer() -> Iterator[None]:
    """Give fake credentials to clients that were created without any: such a client never looks for them
    again.
    """
    signer = AUTH_TYPE_MAPS["v4"]
    add_auth = signer.add_auth

    @functools.wraps(add_auth)
    def add_auth_with_any(auth: Any, request: Any) -> None:
        if auth.credentials is None and auth._service_name == "dynamodb":
            # `auth` belongs to this one request: the client does not keep them.
            auth.credentials = Credentials(*FAKE_CREDENTIALS.values())
        add_auth(auth, request)

    with _patch_attribute(signer, "add_auth", add_auth_with_any):
        yield


@contextlib.contextmanager
def _patch_attribute(owner: type, name: str, replacement: Any) -> Iterator[None]:
    """Replace an attribute, and restore it at the end unless another mock has replaced it in the meantime."""
    former = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if getattr(owner, name) is replacement:
            setattr(owner, name, former)


@functools.lru_cache(maxsize=64)
def _is_local(url: str) -> bool:
    """Return whether the URL is on this machine."""
    return is_loopback(urlsplit(url).hostname or "")


@contextlib.contextmanager
def _provide_fake_credentials() -> Iterator[None]:
    """Set fake credentials and a region if there are none: boto3 needs them, though the engine does not."""
    fakes = _find_missing_settings()
    session = boto3.DEFAULT_SESSION
    os.environ.update(fakes)
    if fakes:
        # The default session would keep the fakes after the context ends.
        boto3.DEFAULT_SESSION = None
    try:
        yield
    finally:
        for name, value in fakes.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        if fakes:
            boto3.DEFAULT_SESSION = session


def _find_missing_settings() -> dict[str, str]:
    """Return fake values for the credentials and the region if neither the environment nor a file has
    them.
    """
    written = _read_config_file("AWS_SHARED_CREDENTIALS_FILE", "credentials") + _read_config_file(
        "AWS_CONFIG_FILE", "config"
    )
    fakes: dict[str, str] = {}
    if not any(name in os.environ for name in _CREDENTIAL_VARIABLES) and not _CREDENTIAL_LINE.search(written):
        fakes |= FAKE_CREDENTIALS
    if "AWS_DEFAULT_REGION" not in os.environ and not _REGION_LINE.search(written):
        fakes |= FAKE_REGION
    return fakes


def _read_config_file(variable: str, usual_name: str) -> str:
    """Return the text of an AWS configuration file, whose path the variable may override; empty if
    unreadable.
    """
    path = Path(os.environ.get(variable) or Path.home() / ".aws" / usual_name).expanduser()
    try:
        return path.read_text(encoding="utf-8", errors="replace") + "\n"
    except OSError:
        return ""


_SERVICE: Final = re.compile(r"/[A-Za-z0-9-]{1,64}/([A-Za-z0-9-]+)/aws4_request")
_AWS_DOMAINS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws")
_SCOPE: Final = re.compile(r"/([A-Za-z0-9-]{1,64})/dynamodb/aws4_request")
_CREDENTIAL_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_CREDENTIAL_LINE: Final = re.compile(
    r"^\s*(aws_access_key_id|role_arn|credential_process|sso_\w+|login_session)\s*=", re.MULTILINE
)
_REGION_LINE: Final = re.compile(r"^\s*region\s*=", re.MULTILINE)
INTERCEPTION: Final = Interception()
BUILTIN_HANDLERS.extend(
    (f"before-send.{service}", INTERCEPTION.answer) for service in ("dynamodb", "dynamodb-streams")
)
