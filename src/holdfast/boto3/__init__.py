"""boto3 answered in this process: DynamoDB clients and resources on the embedded engine, without a socket.

    with holdfast.boto3.in_process():
        table = boto3.resource("dynamodb").create_table(…)

    @holdfast.boto3.in_process
    def test_orders(): …

It replaces the network. boto3 validates, serialises and signs as always; `holdfast.wire` decodes the finished
request, the engine runs it, and boto3 receives the encoded answer as if it came from AWS. While a context is
open it answers for the whole process: all threads, and every client of DynamoDB and DynamoDB Streams, created
before or after, in any region. The innermost context wins. Clients of other services are not affected, nor is
a DynamoDB client whose `endpoint_url` is a loopback address: it is meant for that local server.

Two places are hooked, because neither is enough. A handler of botocore's event `before-send` runs before the
handlers of other mocks, but only in sessions created after this import; `URLLib3Session.send` is called by
every client. A client without credentials would fail before that, so its signer gets fake ones.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import threading
import types
import unittest
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, Final, ParamSpec, Protocol, TypeVar, overload
from urllib.parse import urlsplit

try:
    import boto3  # type: ignore[import, unused-ignore]
    from botocore.auth import AUTH_TYPE_MAPS  # type: ignore[import, unused-ignore]
    from botocore.awsrequest import AWSResponse  # type: ignore[import, unused-ignore]
    from botocore.credentials import Credentials  # type: ignore[import, unused-ignore]
    from botocore.handlers import BUILTIN_HANDLERS  # type: ignore[import, unused-ignore]
    from botocore.httpsession import URLLib3Session  # type: ignore[import, unused-ignore]
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in {"boto3", "botocore"}:
        raise
    from holdfast.core.distribution import format_install_command

    raise ImportError(
        f"holdfast.boto3 needs boto3, which is not installed. Run {format_install_command('aws')}"
    ) from missing

from holdfast.core.errors import HoldfastError
from holdfast.operations.tables import Operation
from holdfast.wire.arns import DEFAULT_LOCATION, AwsLocation
from holdfast.wire.dispatch import decode, encode, encode_error
from holdfast.wire.http.app import build_response_headers, create_request_id

__all__ = ["BlockingTables", "InProcess", "in_process"]

R = TypeVar("R")
P = ParamSpec("P")
C = TypeVar("C", bound=type)

FAKE_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
FAKE_REGION: Final = {"AWS_DEFAULT_REGION": "us-east-1"}


class BlockingTables(Protocol):
    """The part of the embedded engine that a synchronous caller needs."""

    def run_blocking(self, operation: Operation[R], /) -> R: ...


@overload
def in_process(tables: BlockingTables | None = None) -> InProcess: ...
@overload
def in_process(tables: C) -> C: ...
@overload
def in_process(tables: Callable[P, R]) -> Callable[P, R]: ...
def in_process(tables: Any = None) -> Any:
    """Return a context manager and decorator. Without `tables`, each use gets a fresh engine in memory.

    A function or class instead of `tables` is decorated: `@in_process` is `@in_process()`.
    """
    decorates = callable(tables) or isinstance(tables, classmethod)
    if decorates and not hasattr(tables, "run_blocking"):
        return InProcess()(tables)
    return InProcess(tables)


class InProcess:
    """The context manager and decorator that `in_process` returns.

    As a decorator of a class it wraps its tests, each with its own engine; a `unittest.TestCase` shares that
    engine with its `setUp`. A decorated generator, such as a fixture that yields, runs inside the context
    until it ends.
    """

    def __init__(self, tables: BlockingTables | None = None) -> None:
        _require_engine(tables)
        self._tables = tables
        self._open: list[contextlib.ExitStack] = []

    def start(self) -> BlockingTables:
        """Start answering without a `with` block, for example in `setUp`, and return the engine. Call `stop`
        at the end.
        """
        with contextlib.ExitStack() as stack:
            tables = self._tables if self._tables is not None else stack.enter_context(_open_fresh_tables())
            stack.enter_context(_INTERCEPTION.activate(tables))
            self._open.append(stack.pop_all())
        return tables

    def stop(self) -> None:
        """End the last `start`. Raise `RuntimeError` if there is none."""
        if not self._open:
            raise RuntimeError("stop() without start(): this object has no open context.")
        self._open.pop().close()

    def __enter__(self) -> BlockingTables:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self.stop()

    @overload
    def __call__(self, decorated: C) -> C: ...
    @overload
    def __call__(self, decorated: Callable[P, R]) -> Callable[P, R]: ...
    def __call__(self, decorated: Any) -> Any:
        if isinstance(decorated, (staticmethod, classmethod)):
            return type(decorated)(self(decorated.__func__))
        _require_decoratable(decorated)
        if isinstance(decorated, type):
            return self._decorate_class(decorated)
        if inspect.isgeneratorfunction(decorated):
            return self._decorate_generator(decorated)

        @functools.wraps(decorated)
        def within(*arguments: Any, **named: Any) -> Any:
            with InProcess(self._tables):
                return decorated(*arguments, **named)

        return within

    def _decorate_generator(self, decorated: Any) -> Any:
        """Wrap a generator function so that the context is open until the generator ends."""

        @functools.wraps(decorated)
        def throughout(*arguments: Any, **named: Any) -> Any:
            with InProcess(self._tables):
                return (yield from decorated(*arguments, **named))

        return throughout

    def _decorate_class(self, decorated: type) -> type:
        """Wrap every test method, or the `setUp` of a `unittest.TestCase`, in place."""
        if issubclass(decorated, unittest.TestCase):
            _enter_before_set_up(decorated, self._tables)
            return decorated
        for name, method in list(vars(decorated).items()):
            if name.startswith("test") and _is_method(method):
                setattr(decorated, name, self(method))
        return decorated


def _is_method(member: object) -> bool:
    return isinstance(member, (types.FunctionType, staticmethod, classmethod))


def _require_engine(tables: object) -> None:
    """Raise `TypeError` unless `tables` is None or an open engine."""
    if tables is None:
        return
    if not isinstance(tables, type) and callable(getattr(tables, "run_blocking", None)):
        return
    advice = ""
    if isinstance(tables, (str, PathLike)):
        advice = (
            f" Open the file first: with open_tables({os.fspath(tables)!r}) as tables, in_process(tables): …"
        )
    raise TypeError(
        "in_process takes an open engine (from open_tables), or nothing for a fresh one in memory, "
        f"not {tables!r}.{advice}"
    )


def _require_decoratable(decorated: Any) -> None:
    """Raise `TypeError` for a coroutine function, a pytest fixture object, or an object that is not
    callable.
    """
    if inspect.iscoroutinefunction(decorated) or inspect.isasyncgenfunction(decorated):
        raise TypeError(f"boto3 is synchronous: use `with in_process()` inside {decorated.__qualname__}")
    # Since pytest 8.4, `pytest.fixture` returns such an object.
    if type(decorated).__module__ == "_pytest.fixtures":
        raise TypeError(f"Write @pytest.fixture above @in_process, not below it: {decorated!r}")
    if not callable(decorated):
        raise TypeError(f"in_process decorates functions, methods and classes, not {decorated!r}")


def _enter_before_set_up(decorated: type[unittest.TestCase], tables: BlockingTables | None) -> None:
    """Change a TestCase class so that each test enters the context before its `setUp`."""
    set_up = decorated.setUp

    @functools.wraps(set_up)
    def entering(self: unittest.TestCase) -> None:
        self.enterContext(InProcess(tables))
        set_up(self)

    decorated.setUp = entering  # type: ignore[method-assign]


@contextlib.contextmanager
def _open_fresh_tables() -> Iterator[BlockingTables]:
    """Open an embedded engine in memory; close it at the end."""
    from holdfast.stores.tables.embedded import open_tables

    tables = open_tables(None)
    try:
        yield tables
    finally:
        tables.close()


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


class _Interception:
    """The open contexts of this process, innermost last, and the patches that are active meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[BlockingTables, ...] = ()
        self._changes = contextlib.ExitStack()

    @contextlib.contextmanager
    def activate(self, tables: BlockingTables) -> Iterator[None]:
        """Answer requests with these tables for the length of the context."""
        with self._lock:
            if not self._open:
                self._changes.enter_context(_patch_send(self))
                self._changes.enter_context(_patch_signer())
                self._changes.enter_context(_provide_fake_credentials())
            self._open = (*self._open, tables)
        try:
            yield
        finally:
            with self._lock:
                self._open = _remove_last(self._open, tables)
                if not self._open:
                    self._changes.close()

    def answer(self, request: Any, **_: Any) -> AWSResponse | None:
        """Handle `before-send`: return a response, or None to let the request go to the network."""
        tables = self._open
        if not tables or _is_loopback(request.url):
            return None
        return _respond(tables[-1], request)


def _remove_last(
    open_tables: tuple[BlockingTables, ...], tables: BlockingTables
) -> tuple[BlockingTables, ...]:
    """Return the open contexts without the innermost one of these tables."""
    last = max(index for index, each in enumerate(open_tables) if each is tables)
    return open_tables[:last] + open_tables[last + 1 :]


@contextlib.contextmanager
def _patch_send(interception: _Interception) -> Iterator[None]:
    """Have `URLLib3Session.send` answer DynamoDB requests in process."""
    send = URLLib3Session.send

    @functools.wraps(send)
    def send_or_answer(session: Any, request: Any) -> Any:
        if _to_str(request.headers.get("X-Amz-Target", "")).startswith("DynamoDB"):
            response = interception.answer(request)
            if response is not None:
                return response
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
def _is_loopback(url: str) -> bool:
    """Return whether the URL is on this machine."""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


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
_INTERCEPTION: Final = _Interception()
BUILTIN_HANDLERS.extend(
    (f"before-send.{service}", _INTERCEPTION.answer) for service in ("dynamodb", "dynamodb-streams")
)
