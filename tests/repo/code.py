"""Import the library and the installed systems, and find what their modules declare."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, TypeVar

import holdfast
import holdfast_demo
from holdfast.model import system
from holdfast.model.system import System, list_system_names
from holdfast.runtime import Stores, open_memory_stores

T = TypeVar("T")


@cache
def load_systems() -> dict[str, System]:
    """Return the installed systems by name, found by entry point as hosts find them."""
    return system.load_systems()


@cache
def import_modules() -> tuple[ModuleType, ...]:
    """Import every module of the library, of the systems and of their demos."""
    found: list[ModuleType] = []
    for package in map(importlib.import_module, _get_package_names()):
        names = (each.name for each in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
        # A `__main__` runs when it is imported.
        found += [importlib.import_module(name) for name in names if not name.endswith(".__main__")]
        found.append(package)
    return tuple(found)


def find_declared(kind: type[T]) -> list[T]:
    """Return every instance of `kind` that is a global variable of a module, each once."""
    values = (
        value for module in import_modules() for value in vars(module).values() if isinstance(value, kind)
    )
    return list({id(value): value for value in values}.values())


def find_subclasses(base: type[T]) -> list[type[T]]:
    """Return every subclass of `base` that a module defines under its own name.

    This leaves out parametrised generic models and models created from signatures.
    """
    import_modules()
    return [
        each
        for each in _walk_subclasses(base)
        if is_ours(each) and getattr(sys.modules[each.__module__], each.__name__, None) is each
    ]


def is_ours(kind: type[Any]) -> bool:
    """Return True if the library, a system or a demo defines the class, rather than a test."""
    return kind.__module__.partition(".")[0] in _get_package_names()


@cache
def _get_package_names() -> tuple[str, ...]:
    return (holdfast.__name__, holdfast_demo.__name__, *list_system_names())


def _walk_subclasses(base: type[T]) -> Iterator[type[T]]:
    """Yield all direct and indirect subclasses, each once."""
    pending, seen = [base], set[type[T]]()
    while pending:
        for each in pending.pop().__subclasses__():
            if each not in seen:
                seen.add(each)
                pending.append(each)
                yield each


@contextmanager
def open_in_memory(system: System) -> Iterator[Stores]:
    """Open the stores of a system in memory, without creating its tables."""
    stores = open_memory_stores(system)
    try:
        yield stores
    finally:
        asyncio.run(stores.close())
