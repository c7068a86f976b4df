"""Collect which test proves which requirement, and write it into docs/internals/requirements.md.

python -m tests.repo.requirements        rewrites the last column of the page
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "internals" / "requirements.md"
ROW = re.compile(r"^\| ([A-Z]{2}-X?\d+) \| (.+?) \| (.+?) \| (.*?) ?\|$")
MAX_TESTS_SHOWN = 4


@cache
def find_marked_tests() -> dict[str, list[str]]:
    """Return the tests marked with each id, as `path::name`, in the order of the files."""
    found: dict[str, list[str]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        where = file.relative_to(ROOT / "tests").as_posix()
        for name, ids in _find_marks(ast.parse(file.read_text(encoding="utf-8"))):
            for id in ids:
                found.setdefault(id, []).append(f"{where}::{name}")
    return found


def read_rows() -> dict[str, tuple[str, str, str]]:
    """Return the page's rows by id: requirement, module and tests."""
    matches = (
        ROW.match(line) for line in PAGE.read_text(encoding="utf-8").split("## What cannot")[0].splitlines()
    )
    return {match[1]: (match[2], match[3], match[4]) for match in matches if match}


def format_cell(tests: list[str]) -> str:
    """Format the last column: the first tests, and the number of others."""
    shown = [f"`{test}`" for test in tests[:MAX_TESTS_SHOWN]]
    more = len(tests) - MAX_TESTS_SHOWN
    return "<br>".join([*shown, f"and {more} more"] if more > 0 else shown)


def render_page() -> str:
    """Return the page with its last column taken from the marks."""
    tests = find_marked_tests()
    lines = []
    head, bar, tail = PAGE.read_text(encoding="utf-8").partition("## What cannot")
    for line in head.split("\n"):
        match = ROW.match(line)
        lines.append(
            f"| {match[1]} | {match[2]} | {match[3]} | {format_cell(tests.get(match[1], []))} |"
            if match
            else line
        )
    return "\n".join(lines) + bar + tail


def _find_marks(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield each test with the ids that it, or its whole file, is marked with."""
    whole_file = [
        id
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "pytestmark" for t in node.targets)
        for id in _find_ids(node.value)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            ids = [id for decorator in node.decorator_list for id in _find_ids(decorator)]
            if ids or whole_file:
                yield node.name, list(dict.fromkeys([*ids, *whole_file]))


def _find_ids(node: ast.AST) -> list[str]:
    """Return the ids in the `proves` marks of an expression."""
    return [
        argument.value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("mark.proves")
        for argument in call.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
