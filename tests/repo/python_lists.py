"""List the public Python names: those of the modules that docs/reference/stability.md calls public."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "stability.md"
MODULE_CELL: Final = re.compile(r"^\| ((?:`holdfast[\w.]*`(?:, )?)+) \|", re.MULTILINE)


def list_public_modules() -> list[str]:
    """Return the modules in the first column of the page's table."""
    text = PAGE.read_text(encoding="utf-8").partition("### Public modules")[2]
    return [name for cell in MODULE_CELL.findall(text) for name in re.findall(r"`([\w.]+)`", cell)]


def list_python_names() -> Iterator[str]:
    """List each public name with its parameters, and the public members of each class."""
    public = _find_public_classes()
    for path in list_public_modules():
        module = import_module(path)
        for name in list_names(module):
            value = getattr(module, name)
            yield f"{path}.{name}{_describe_parameters(value)}"
            if inspect.isclass(value):
                for member, found in _list_members(value, public):
                    yield f"{path}.{name}.{member}{_describe_parameters(found)}"


def list_names(module: ModuleType) -> list[str]:
    """Return the names in `__all__`, or else the names without an underscore that the module defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(name for name in _list_definitions(inspect.getsource(module)) if not name.startswith("_"))


def _list_definitions(source: str) -> Iterator[str]:
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                yield name


@cache
def _find_public_classes() -> frozenset[type]:
    modules = [import_module(path) for path in list_public_modules()]
    values = [getattr(module, name) for module in modules for name in list_names(module)]
    return frozenset(value for value in values if inspect.isclass(value))


def _list_members(found: type, public: frozenset[type]) -> Iterator[tuple[str, Any]]:
    """Yield the public members of a class, without those that it inherits from another public class."""
    for each in found.__mro__:
        if each is not found and (each in public or not each.__module__.startswith("holdfast")):
            continue
        for name, value in vars(each).items():
            if not name.startswith("_"):
                yield name, value.__func__ if isinstance(value, (classmethod, staticmethod)) else value


def _describe_parameters(value: Any) -> str:
    """Return `(name, *, option=)` for a function or a class with a constructor of its own, else nothing."""
    if getattr(value, "_is_protocol", False):
        return ""
    if inspect.isclass(value):
        own = (each for each in value.__mro__ if each.__module__.startswith("holdfast"))
        if not dataclasses.is_dataclass(value) and not any("__init__" in vars(each) for each in own):
            return ""
    elif not inspect.isfunction(value):
        return ""
    parameters = inspect.signature(value).parameters.values()
    return f"({', '.join(_describe_all(list(parameters)))})"


def _describe_all(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Describe each parameter; a default is only an `=`, and the values of defaults are not listed."""
    starred = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not starred:
            yield "*"
        starred = starred or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        prefix = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        yield f"{prefix}{each.name}{'' if each.default is each.empty else '='}"
