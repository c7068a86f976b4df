"""Code that depends on the operating system: in one module, so that each platform is handled in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = sorted((ROOT / "src").rglob("*.py"))
SYNCED = sorted(path for folder in ("src", "systems", "demo") for path in (ROOT / folder).rglob("*.py"))

DISK = "src/holdfast/core/disk.py"
SYNC_CALLS = {"fsync", "fdatasync", "F_FULLFSYNC"}
# Modules that Windows does not have, and the only module of the library that may import each.
POSIX_MODULES = {
    "fcntl": DISK,
    "pwd": "src/holdfast/stores/sql/postgres/accounts.py",
    "grp": None,
    "resource": None,
    "termios": None,
    "uvloop": None,
}


def format_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def find_names(path: Path) -> Iterator[str]:
    """Return every attribute and every name imported from a module that the file uses."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Attribute(attr=name):
                yield name
            case ast.ImportFrom(names=names):
                yield from (each.name for each in names)


def find_imports(path: Path) -> Iterator[str]:
    """Return every module that the file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names)
            case ast.ImportFrom(module=str(name)):
                yield name


def test_only_one_module_syncs_to_the_disk() -> None:
    """On macOS fsync alone is not durable, so every sync goes through `holdfast.core.disk`."""
    assert [format_path(module) for module in SYNCED if SYNC_CALLS & set(find_names(module))] == [DISK]


def test_modules_that_windows_lacks_are_imported_in_one_place() -> None:
    found = {
        (name, format_path(module))
        for module in LIBRARY
        for name in POSIX_MODULES.keys() & set(find_imports(module))
    }
    assert found == {(name, place) for name, place in POSIX_MODULES.items() if place}
