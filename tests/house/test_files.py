"""How our files look: documented, not too long, named for what they hold, and free of any one machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for room in ("src", "systems") for path in (ROOT / room).rglob("*.py"))

LINES_MAX = 600
# A list by nature: one short class per error, with the tree of all of them on top.
LONGER_MODULES = {"src/holdfast/core/errors.py": 700}
# Names under which anything can be put, and so everything is.
NAMES_REFUSED = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}

# Put together here so that this file passes its own test.
PLACES_OF_A_MACHINE = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["home/\\w", "Users/\\w", "root/", "tmp/\\w", "work/\\w", "opt/\\w"]) + ")"
)
PACKAGE_INDEXES = re.compile(
    "|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "--(extra-)?" + "index-url"])
)
TEXTS_OF_OTHERS = {"LICENSE"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_module_says_what_it_is_for(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_module_is_not_too_long_to_read(module: Path) -> None:
    limit = LONGER_MODULES.get(name_of(module), LINES_MAX)

    assert len(module.read_text(encoding="utf-8").splitlines()) <= limit


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_module_is_named_for_what_it_holds(module: Path) -> None:
    assert not NAMES_REFUSED & set(module.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_module_reads_annotations_lazily(module: Path) -> None:
    body = ast.parse(module.read_text(encoding="utf-8")).body[1:]
    lazily = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in body)

    assert lazily or not body


@pytest.mark.proves("SM-X21")
@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_module_is_written_in_the_python_that_is_asked_for(module: Path) -> None:
    asked = re.search(
        r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    assert asked

    ast.parse(module.read_text(encoding="utf-8"), feature_version=(3, int(asked[1])))


def test_every_room_is_a_package() -> None:
    # One without __init__.py can still be imported, but the contracts on imports would not see it.
    rooms = {module.parent for module in MODULES} - {ROOT / "src", ROOT / "systems"}

    assert [name_of(room) for room in sorted(rooms) if not (room / "__init__.py").exists()] == []


def test_no_file_names_a_place_on_somebodys_machine() -> None:
    assert _lines_matching(PLACES_OF_A_MACHINE) == []


def test_no_file_names_a_package_index() -> None:
    assert _lines_matching(PACKAGE_INDEXES) == []


@pytest.mark.parametrize(
    "path", ["/" + "home/ada/x", "/" + "tmp/x", "see /" + "root/.cache", '"/' + 'work/y"']
)
def test_a_place_on_a_machine_would_be_found(path: str) -> None:
    assert PLACES_OF_A_MACHINE.search(path)


def _lines_matching(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in _kept_files()
        if path.name not in TEXTS_OF_OTHERS
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if pattern.search(line)
    ]


def _kept_files() -> list[Path]:
    """What is in version control, or would be with the next commit."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout, so nothing says which files belong to the project")
    listed = subprocess.run(
        [git, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]
