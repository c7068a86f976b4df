"""boto3 answered in this process: DynamoDB clients and resources on the embedded engine, without a socket.

    with holdfast.boto3.in_process():
        table = boto3.resource("dynamodb").create_table(…)

    @holdfast.boto3.in_process
    def test_orders(): …

`mock_aws` is the same with the nesting of moto's decorator of that name, for a test suite that changes its
import.

It replaces the network. boto3 validates, serialises and signs as always; `holdfast.wire` decodes the finished
request, the engine runs it, and boto3 receives the encoded answer as if it came from AWS. While a context is
open it answers for the whole process: all threads, and every client of DynamoDB and DynamoDB Streams, created
before or after, in any region. The innermost context wins. Clients of other services are not affected, nor is
a DynamoDB client whose `endpoint_url` is a loopback address: it is meant for that local server.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import types
import unittest
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, ClassVar, Final, ParamSpec, TypeVar, overload

from holdfast.boto3.interception import INTERCEPTION, BlockingTables

__all__ = ["BlockingTables", "InProcess", "MockAws", "in_process", "mock_aws"]

R = TypeVar("R")
P = ParamSpec("P")
C = TypeVar("C", bound=type)


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

    As a decorator of a class it wraps its tests, each with its own engine, which a test shares with its
    `setUp` or `setup_method`. A decorated generator, such as a fixture that yields, runs inside the context
    until it ends, and so does a coroutine.
    """

    _name: ClassVar = "in_process"

    def __init__(self, tables: BlockingTables | None = None) -> None:
        _require_engine(tables)
        self._tables = tables
        self._open: list[contextlib.ExitStack] = []

    def start(self) -> BlockingTables:
        """Start answering without a `with` block, for example in `setUp`, and return the engine. Call `stop`
        at the end.
        """
        with contextlib.ExitStack() as stack:
            tables = self._enter(stack)
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
        _require_decoratable(decorated, self._name)
        if isinstance(decorated, type):
            return self._decorate_class(decorated)
        if inspect.isgeneratorfunction(decorated):
            return self._decorate_generator(decorated)
        if inspect.iscoroutinefunction(decorated):
            return self._decorate_coroutine(decorated)

        @functools.wraps(decorated)
        def within(*arguments: Any, **named: Any) -> Any:
            with self._copy():
                return decorated(*arguments, **named)

        return within

    def _enter(self, stack: contextlib.ExitStack) -> BlockingTables:
        """Open the engine if it is not given, and answer requests with it until the stack closes."""
        tables = self._tables if self._tables is not None else stack.enter_context(_open_fresh_tables())
        stack.enter_context(INTERCEPTION.activate(tables))
        return tables

    def _copy(self) -> InProcess:
        """Return a context of its own for one call or one test."""
        return InProcess(self._tables)

    def _decorate_generator(self, decorated: Any) -> Any:
        """Wrap a generator function so that the context is open until the generator ends."""

        @functools.wraps(decorated)
        def throughout(*arguments: Any, **named: Any) -> Any:
            with self._copy():
                return (yield from decorated(*arguments, **named))

        return throughout

    def _decorate_coroutine(self, decorated: Any) -> Any:
        """Wrap a coroutine function so that the context is open until the coroutine ends."""

        @functools.wraps(decorated)
        async def throughout(*arguments: Any, **named: Any) -> Any:
            with self._copy():
                return await decorated(*arguments, **named)

        return throughout

    def _is_wrapped(self, method: str) -> bool:
        """Return True if the class decorator wraps a method of this name."""
        return method.startswith("test")

    def _decorate_class(self, decorated: type) -> type:
        """Wrap every test method, or what runs before it (`setUp`, `setup_method`), in place."""
        if issubclass(decorated, unittest.TestCase):
            _enter_before_set_up(decorated, self._copy)
        elif hasattr(decorated, "setup_method") or hasattr(decorated, "teardown_method"):
            _enter_before_setup_method(decorated, self._copy())
        else:
            for name, member in list(vars(decorated).items()):
                is_test_class = isinstance(member, type) and name.startswith("Test")
                if is_test_class or (self._is_wrapped(name) and _is_method(member)):
                    setattr(decorated, name, self(member))
        return decorated


@overload
def mock_aws(func: None = None, config: Mapping[str, Any] | None = None) -> MockAws: ...
@overload
def mock_aws(func: C) -> C: ...
@overload
def mock_aws(func: Callable[P, R]) -> Callable[P, R]: ...
def mock_aws(func: Any = None, config: Mapping[str, Any] | None = None) -> Any:
    """Return a context manager and decorator that replaces moto's `mock_aws` for DynamoDB and its streams.

    Nested uses share one engine, which is fresh for the outermost. A request to another service raises
    `RuntimeError`, unless another mock answers it. `config` is moto's and has no effect.
    """
    return MockAws() if func is None else MockAws()(func)


class MockAws(InProcess):
    """The context manager and decorator that `mock_aws` returns."""

    _name = "mock_aws"

    def __init__(self) -> None:
        super().__init__()

    def _copy(self) -> InProcess:
        return MockAws()

    def _is_wrapped(self, method: str) -> bool:
        """Return True for every public method, as in moto: nested calls share the engine."""
        return not method.startswith("_")

    def reset(self) -> None:
        """Delete all tables of the open mock."""
        _SHARED_TABLES.reset()

    def _enter(self, stack: contextlib.ExitStack) -> BlockingTables:
        """Open the shared engine, and refuse the requests to other services."""
        tables = stack.enter_context(_SHARED_TABLES.open())
        stack.enter_context(INTERCEPTION.activate(tables, refuses_others=True))
        return tables


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


def _require_decoratable(decorated: Any, name: str) -> None:
    """Raise `TypeError` for an async generator, a pytest fixture object, or what is not callable.

    `name` is the decorator's name in the error.
    """
    if inspect.isasyncgenfunction(decorated):
        raise TypeError(
            f"{name} does not decorate async generators: use `with {name}()` inside {decorated!r}"
        )
    # Since pytest 8.4, `pytest.fixture` returns such an object.
    if type(decorated).__module__ == "_pytest.fixtures":
        raise TypeError(f"Write @pytest.fixture above @{name}, not below it: {decorated!r}")
    if not callable(decorated):
        raise TypeError(f"{name} decorates functions, methods and classes, not {decorated!r}")


def _enter_before_set_up(decorated: type[unittest.TestCase], make_context: Callable[[], InProcess]) -> None:
    """Change a TestCase class so that each test enters a context before its `setUp`."""
    set_up = decorated.setUp

    @functools.wraps(set_up)
    def entering(self: unittest.TestCase) -> None:
        self.enterContext(make_context())
        set_up(self)

    decorated.setUp = entering  # type: ignore[method-assign]


def _enter_before_setup_method(decorated: Any, context: InProcess) -> None:
    """Change a pytest class so that each test is in the context, from `setup_method` to
    `teardown_method`.
    """
    set_up, tear_down = (getattr(decorated, name, None) for name in ("setup_method", "teardown_method"))

    def entering(self: object, method: object) -> None:
        context.start()
        try:
            _call_with_method(set_up, self, method)
        except BaseException:
            # pytest does not call `teardown_method` then.
            context.stop()
            raise

    def leaving(self: object, method: object) -> None:
        try:
            _call_with_method(tear_down, self, method)
        finally:
            context.stop()

    decorated.setup_method, decorated.teardown_method = entering, leaving


def _call_with_method(function: Callable[..., object] | None, instance: object, method: object) -> None:
    """Call a class's `setup_method` or `teardown_method`, which may take the test method or not."""
    if function is not None:
        takes_method = len(inspect.signature(function).parameters) > 1
        function(instance, *((method,) if takes_method else ()))


@contextlib.contextmanager
def _open_fresh_tables() -> Iterator[BlockingTables]:
    """Open an embedded engine in memory; close it at the end."""
    from holdfast.stores.tables.embedded import open_tables

    tables = open_tables(None)
    try:
        yield tables
    finally:
        tables.close()


class _SharedTables:
    """The engine that nested `mock_aws` contexts share: opened by the first, closed by the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._engine = contextlib.ExitStack()
        self._tables: BlockingTables | None = None

    @contextlib.contextmanager
    def open(self) -> Iterator[BlockingTables]:
        """Yield the engine, opening it if no context has it open."""
        with self._lock:
            self._tables = self._tables or self._engine.enter_context(_open_fresh_tables())
            self._users += 1
            tables = self._tables
        try:
            yield tables
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    self._tables = None
                    self._engine.close()

    def reset(self) -> None:
        """Delete every table of the open engine."""
        from holdfast.operations.tables import DeleteTable, ListTables

        while self._tables is not None and (names := self._tables.run_blocking(ListTables()).names):
            for name in names:
                self._tables.run_blocking(DeleteTable(name))


_SHARED_TABLES: Final = _SharedTables()
