"""Read from the source what no object shows at run time: counted metrics and named environment variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from holdfast.runtime import Stores
from holdfast.runtime.telemetry.metrics import OWN_PREFIX

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("src", "systems", "demo")
# The methods that count and measure, by their current names.
COUNTING: Final = {Stores.count.__name__: "counter", Stores.measure.__name__: "distribution"}
METRIC: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
VARIABLE: Final = re.compile(
    r'"((?:HOLDFAST|AGENTICPM|PAGW|RICHPANEL|RP_MW|SKYMARSHAL|TRIPCORTEX)_[A-Z0-9_]+)"'
)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def find_variables() -> set[str]:
    """Return every environment variable of the project that the code names in full."""
    return {name for text in _read_sources() for name in VARIABLE.findall(text) if not name.endswith("_")}


def find_metrics() -> set[str]:
    """Return each metric that the code counts or measures: `holdfast_events_gone_total {}: counter`.

    The labels are in braces.
    """
    calls = tuple(f".{name}(" for name in COUNTING)
    modules = [ast.parse(text) for text in _read_sources() if any(call in text for call in calls)]
    return {
        f"{OWN_PREFIX}{name}{'_total' if kind == 'counter' else ''} "
        f"{{{', '.join(sorted(each.arg for each in call.keywords if each.arg))}}}: {kind}"
        for module in modules
        for function, call, kind in _find_counting_calls(module)
        for name in _find_metric_names(module, function, call)
    }


def _read_sources() -> Iterator[str]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield file.read_text(encoding="utf-8")


def _find_counting_calls(module: ast.Module) -> Iterator[tuple[Function, ast.Call, str]]:
    """Yield each call with the function that contains it."""
    for function in ast.walk(module):
        if isinstance(function, Function):
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(attr=name), args=[_, *_]) if name in COUNTING:
                        yield function, node, COUNTING[name]


def _find_metric_names(module: ast.Module, function: Function, call: ast.Call) -> Iterator[str]:
    """Yield the call's first argument; if that is a parameter of the function, what its callers pass."""
    given = call.args[0]
    text = _read_text(given)
    if text is not None and METRIC.fullmatch(text):
        yield text
    names = [each.arg for each in function.args.args if each.arg != "self"]
    if isinstance(given, ast.Name) and given.id in names and call.keywords:
        yield from _find_arguments(module, function.name, names.index(given.id))


def _find_arguments(module: ast.Module, function: str, position: int) -> Iterator[str]:
    """Yield the texts that a module passes to a function at this position."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and len(node.args) > position:
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == function and (text := _read_text(node.args[position])):
                yield text


def _read_text(node: ast.AST) -> str | None:
    """Return the value of a string constant, or None for any other node."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
