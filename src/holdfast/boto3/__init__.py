"""boto3 answered in this process: DynamoDB clients and resources on the embedded engine, without a socket.

    with holdfast.boto3.in_process():
        table = boto3.resource("dynamodb").create_table(…)

    @holdfast.boto3.in_process
    def test_orders(): …

It stands where the network would be. boto3 validates, serialises and signs as always; the finished request is
decoded by `holdfast.wire`, run, and its encoded answer handed back as if it had come from AWS. While a context
is open it answers for the whole process, all threads, and every client of DynamoDB and DynamoDB Streams,
made before or after, in any region; the innermost context wins. Clients of other services are left alone, and
so is a DynamoDB client whose `endpoint_url` is a loopback address: who names a local server means that server.

Two places are hooked, because neither is enough. A handler of botocore's event `before-send` comes before the
handlers of other stand-ins, but is only known to sessions made after this import; `URLLib3Session.send` is
passed by every client there is. A client that has no credentials would not come so far: its signer is lent some.
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
    raise ImportError(
        "holdfast.boto3 needs boto3, which the extra brings: pip install 'holdfast[aws]'"
    ) from missing

from holdfast.errors import HoldfastError
from holdfast.operations.tables import Operation
from holdfast.wire.app import answer_headers, new_request_id
from holdfast.wire.arns import HERE, Place
from holdfast.wire.dispatch import decode, encode, error_body

__all__ = ["BlockingTables", "InProcess", "in_process"]

R = TypeVar("R")
P = ParamSpec("P")
C = TypeVar("C", bound=type)

FAKE_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
FAKE_REGION: Final = {"AWS_DEFAULT_REGION": "us-east-1"}


class BlockingTables(Protocol):
    """The face of the embedded engine that a synchronous caller needs."""

    def run_blocking(self, operation: Operation[R], /) -> R: ...


@overload
def in_process(tables: BlockingTables | None = None) -> InProcess: ...
@overload
def in_process(tables: C) -> C: ...
@overload
def in_process(tables: Callable[P, R]) -> Callable[P, R]: ...
def in_process(tables: Any = None) -> Any:
    """A context manager and decorator. Without `tables`, each use has a fresh engine in memory.

    A function or class in their place is decorated: `@in_process` is `@in_process()`.
    """
    decorates = callable(tables) or isinstance(tables, classmethod)
    if decorates and not hasattr(tables, "run_blocking"):
        return InProcess()(tables)
    return InProcess(tables)


class InProcess:
    """What `in_process` gives. As a decorator of a class it wraps its tests, each with an engine of its own;
    a `unittest.TestCase` shares that engine with its `setUp`. A decorated generator, such as a fixture that
    yields, is answered for until it ends."""

    def __init__(self, tables: BlockingTables | None = None) -> None:
        _refuse_what_is_no_engine(tables)
        self._given = tables
        self._open: list[contextlib.ExitStack] = []

    def start(self) -> BlockingTables:
        """For who has no block to put it around, as in a `setUp`; `stop` belongs to it."""
        with contextlib.ExitStack() as stack:
            tables = self._given if self._given is not None else stack.enter_context(_fresh_tables())
            stack.enter_context(_INTERCEPTION.by(tables))
            self._open.append(stack.pop_all())
        return tables

    def stop(self) -> None:
        """Ends what the last `start` began."""
        if not self._open:
            raise RuntimeError("stop() without start(): nothing is answered in process by this object.")
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
        _refuse_what_cannot_be_decorated(decorated)
        if isinstance(decorated, type):
            return self._decorated_class(decorated)
        if inspect.isgeneratorfunction(decorated):
            return self._decorated_generator(decorated)

        @functools.wraps(decorated)
        def within(*arguments: Any, **named: Any) -> Any:
            with InProcess(self._given):
                return decorated(*arguments, **named)

        return within

    def _decorated_generator(self, decorated: Any) -> Any:
        @functools.wraps(decorated)
        def throughout(*arguments: Any, **named: Any) -> Any:
            with InProcess(self._given):
                return (yield from decorated(*arguments, **named))

        return throughout

    def _decorated_class(self, decorated: type) -> type:
        if issubclass(decorated, unittest.TestCase):
            _enter_before_set_up(decorated, self._given)
            return decorated
        for name, method in list(vars(decorated).items()):
            if name.startswith("test") and _is_method(method):
                setattr(decorated, name, self(method))
        return decorated


def _is_method(member: object) -> bool:
    return isinstance(member, (types.FunctionType, staticmethod, classmethod))


def _refuse_what_is_no_engine(tables: object) -> None:
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
        "in_process takes an open engine (what open_tables gives), or nothing for a fresh one in memory, "
        f"not {tables!r}.{advice}"
    )


def _refuse_what_cannot_be_decorated(decorated: Any) -> None:
    if inspect.iscoroutinefunction(decorated) or inspect.isasyncgenfunction(decorated):
        raise TypeError(f"boto3 is synchronous: use `with in_process()` inside {decorated.__qualname__}")
    # What `pytest.fixture` makes of a function, since pytest 8.4.
    if type(decorated).__module__ == "_pytest.fixtures":
        raise TypeError(f"Write @pytest.fixture above @in_process, not below it: {decorated!r}")
    if not callable(decorated):
        raise TypeError(f"in_process decorates functions, methods and classes, not {decorated!r}")


def _enter_before_set_up(decorated: type[unittest.TestCase], tables: BlockingTables | None) -> None:
    set_up = decorated.setUp

    @functools.wraps(set_up)
    def entering(self: unittest.TestCase) -> None:
        self.enterContext(InProcess(tables))
        set_up(self)

    decorated.setUp = entering  # type: ignore[method-assign]


@contextlib.contextmanager
def _fresh_tables() -> Iterator[BlockingTables]:
    from holdfast.stores.tables.embedded import open_tables

    tables = open_tables(None)
    try:
        yield tables
    finally:
        tables.close()


# --- answering one request ----------------------------------------------------------------------------------


class _Body:
    """A body as urllib3 would give it."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> tuple[bytes, ...]:
        return (self._content,)

    def read(self, *_: Any, **__: Any) -> bytes:
        content, self._content = self._content, b""
        return content


def _respond(tables: BlockingTables, request: Any) -> AWSResponse:
    status, body = _run(tables, request)
    headers = {name.decode(): value.decode() for name, value in answer_headers(body, new_request_id())}
    headers["content-type"] = "application/x-amz-json-1.0"
    return AWSResponse(request.url, status, headers, _Body(body))


def _run(tables: BlockingTables, request: Any) -> tuple[int, bytes]:
    # Only what the service has a name for becomes an answer. A defect of ours is raised through boto3 as it is:
    # in one's own process a traceback helps, and an answer of 500 would be retried for half a minute.
    try:
        codec, operation = decode(_text(request.headers["X-Amz-Target"]), _bytes(request.body))
        result = tables.run_blocking(operation)
        return 200, encode(
            codec, operation, result, _place_of(_text(request.headers.get("Authorization", "")))
        )
    except HoldfastError as error:
        return error_body(error)


def _place_of(authorization: str) -> Place:
    scope = _SCOPE.search(authorization)
    return _place_in(scope[1]) if scope else HERE


@functools.lru_cache(maxsize=64)
def _place_in(region: str) -> Place:
    return Place(region)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _bytes(body: str | bytes | bytearray | None) -> bytes:
    if isinstance(body, str):
        return body.encode()
    return bytes(body or b"")


# --- standing where the network would be --------------------------------------------------------------------


class _Interception:
    """The open contexts of this process, innermost last, and what is changed while there is any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: tuple[BlockingTables, ...] = ()
        self._changes = contextlib.ExitStack()

    @contextlib.contextmanager
    def by(self, tables: BlockingTables) -> Iterator[None]:
        with self._lock:
            if not self._open:
                self._changes.enter_context(_every_client_passes(self))
                self._changes.enter_context(_every_client_can_sign())
                self._changes.enter_context(_credentials_to_sign_with())
            self._open = (*self._open, tables)
        try:
            yield
        finally:
            with self._lock:
                self._open = _without_last(self._open, tables)
                if not self._open:
                    self._changes.close()

    def answer(self, request: Any, **_: Any) -> AWSResponse | None:
        """The handler of `before-send`: a response, or None to let the request go its way."""
        tables = self._open
        if not tables or _is_loopback(request.url):
            return None
        return _respond(tables[-1], request)


def _without_last(
    open_tables: tuple[BlockingTables, ...], tables: BlockingTables
) -> tuple[BlockingTables, ...]:
    last = max(index for index, each in enumerate(open_tables) if each is tables)
    return open_tables[:last] + open_tables[last + 1 :]


@contextlib.contextmanager
def _every_client_passes(interception: _Interception) -> Iterator[None]:
    send = URLLib3Session.send

    @functools.wraps(send)
    def send_or_answer(session: Any, request: Any) -> Any:
        if _text(request.headers.get("X-Amz-Target", "")).startswith("DynamoDB"):
            response = interception.answer(request)
            if response is not None:
                return response
        return send(session, request)

    with _replaced(URLLib3Session, "send", send_or_answer):
        yield


@contextlib.contextmanager
def _every_client_can_sign() -> Iterator[None]:
    """A client made before us, where there were no credentials to find, has none for as long as it lives."""
    signer = AUTH_TYPE_MAPS["v4"]
    add_auth = signer.add_auth

    @functools.wraps(add_auth)
    def add_auth_with_any(auth: Any, request: Any) -> None:
        if auth.credentials is None and auth._service_name == "dynamodb":
            # `auth` is made for this one request: the client does not remember them.
            auth.credentials = Credentials(*FAKE_CREDENTIALS.values())
        add_auth(auth, request)

    with _replaced(signer, "add_auth", add_auth_with_any):
        yield


@contextlib.contextmanager
def _replaced(owner: type, name: str, replacement: Any) -> Iterator[None]:
    """Put back at the end, unless another stand-in has put its own on top in the meantime."""
    former = getattr(owner, name)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if getattr(owner, name) is replacement:
            setattr(owner, name, former)


@functools.lru_cache(maxsize=64)
def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


@contextlib.contextmanager
def _credentials_to_sign_with() -> Iterator[None]:
    """boto3 refuses to sign without credentials and to start without a region, though ours need neither."""
    fakes = _missing_settings()
    session = boto3.DEFAULT_SESSION
    os.environ.update(fakes)
    if fakes:
        # The default session would remember the fakes for longer than they are there.
        boto3.DEFAULT_SESSION = None
    try:
        yield
    finally:
        for name, value in fakes.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        if fakes:
            boto3.DEFAULT_SESSION = session


def _missing_settings() -> dict[str, str]:
    written = _file_text("AWS_SHARED_CREDENTIALS_FILE", "credentials") + _file_text(
        "AWS_CONFIG_FILE", "config"
    )
    fakes: dict[str, str] = {}
    if not any(name in os.environ for name in _SOURCES) and not _CREDENTIAL_LINE.search(written):
        fakes |= FAKE_CREDENTIALS
    if "AWS_DEFAULT_REGION" not in os.environ and not _REGION_LINE.search(written):
        fakes |= FAKE_REGION
    return fakes


def _file_text(variable: str, usual_name: str) -> str:
    path = Path(os.environ.get(variable) or Path.home() / ".aws" / usual_name).expanduser()
    try:
        return path.read_text(encoding="utf-8", errors="replace") + "\n"
    except OSError:
        return ""


_SCOPE: Final = re.compile(r"/([A-Za-z0-9-]{1,64})/dynamodb/aws4_request")
_SOURCES: Final = (
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
