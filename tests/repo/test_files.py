"""Rules for every file: a docstring, a length limit, a specific name, no path of a machine."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.cases import all_cases
from tests.repo.versioned_files import list_versioned_files

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for folder in ("src", "systems", "demo") for path in (ROOT / folder).rglob("*.py"))

MAX_LINES = 600
# Lists by nature: one short class per error, one short function per access pattern or query.
LONGER_MODULES = {
    "src/holdfast/core/errors.py": 830,
    "systems/skymarshal/model/patterns.py": 650,
    "systems/skymarshal/model/queries.py": 650,
}
# Names so general that they collect everything.
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}

# Put together here so that this file passes its own test.
MACHINE_PATHS = re.compile(
    r"(?<![\w.])/(?:" + "|".join(["home/\\w", "Users/\\w", "root/", "tmp/\\w", "work/\\w", "opt/\\w"]) + ")"
)
PACKAGE_INDEXES = re.compile(
    "|".join(["pypi" + r"\.org", "python" + r"hosted\.org", "--(extra-)?" + "index-url"])
)
THIRD_PARTY_TEXTS = {"LICENSE"}
# A request to pip, or a requirement, that means the unrelated project of that name on the public index.
BARE_NAME = re.compile(
    r"""(?:pip3?|pipx|uv|poetry|pdm)\ (?:install|add)\b[^\n`]*?(?<![\w./=-])holdfast(?![\w/-]|\.\w)
    |uvx\ (?:--\S+\ )*holdfast(?![\w/-])
    |(?<![\w./-])holdfast(?:\[[\w,\ -]+\]|\s*[=~!]=|\s*[<>]=?\s*\d|\ @\ )  # "holdfast[aws]", "holdfast>=0.2"
    |(?:dependencies|requires)\b[^\n]*["']holdfast["']""",
    re.VERBOSE,
)


def format_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_module_has_a_docstring_and_imports_annotations_from_future() -> None:
    undocumented, eager = [], []
    for module in MODULES:
        tree = ast.parse(module.read_text(encoding="utf-8"))
        if not ast.get_docstring(tree):
            undocumented.append(format_path(module))
        imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        # FastAPI cannot resolve deferred annotations of local dependencies, so its users may do without.
        if tree.body[1:] and not imported & {"__future__", "fastapi"}:
            eager.append(format_path(module))

    assert (undocumented, eager) == ([], [])


def test_no_module_is_too_long_to_read() -> None:
    lengths = {format_path(each): len(each.read_text(encoding="utf-8").splitlines()) for each in MODULES}

    assert {name: n for name, n in lengths.items() if n > LONGER_MODULES.get(name, MAX_LINES)} == {}


def test_every_module_name_is_specific() -> None:
    names = {each: set(each.relative_to(ROOT).with_suffix("").parts) for each in MODULES}

    assert [format_path(each) for each, parts in names.items() if parts & FORBIDDEN_NAMES] == []


@pytest.mark.proves("SM-X21")
def test_every_module_parses_in_the_oldest_supported_python() -> None:
    asked = re.search(
        r'requires-python = ">=3\.(\d+)"', (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    )
    assert asked

    for module in MODULES:
        # A SyntaxError names the file and the line.
        ast.parse(module.read_text(encoding="utf-8"), format_path(module), feature_version=(3, int(asked[1])))


def test_every_source_folder_is_a_package() -> None:
    # A folder without __init__.py can be imported, but the import contracts would not see it.
    folders = {module.parent for module in MODULES} - {ROOT / "src", ROOT / "systems", ROOT / "demo"}

    assert [format_path(folder) for folder in sorted(folders) if not (folder / "__init__.py").exists()] == []


def test_no_file_contains_a_machine_path() -> None:
    assert _find_lines(MACHINE_PATHS) == []


def test_no_file_contains_a_package_index_address() -> None:
    assert _find_lines(PACKAGE_INDEXES) == []


@pytest.mark.parametrize(
    "path", ["/" + "home/ada/x", "/" + "tmp/x", "see /" + "root/.cache", '"/' + 'work/y"']
)
def test_the_check_finds_a_machine_path(path: str) -> None:
    assert MACHINE_PATHS.search(path)


def test_no_file_asks_pip_for_the_name_of_an_unrelated_project() -> None:
    examples = f"{format_path(Path(__file__))}:"
    found = [each for each in _find_lines(BARE_NAME) if not each.startswith(examples)]

    assert found == []


@all_cases(
    ("line", "is_bare"),
    [
        ("$ pip install holdfast", True),
        ("pip install 'holdfast[aws]'", True),
        ("pip install -U holdfast==1.0 rich", True),
        ('dependencies = ["holdfast[api]"]', True),
        ('"holdfast >= 0.2"', True),
        ('dependencies = ["holdfast"]', True),
        ("`uv add holdfast`", True),
        ("pipx install holdfast.", True),
        ("uvx holdfast --help", True),
        ("holdfast @ git+https://example.com/x.git", True),
        ("holdfast >0.1", True),
        ("pip install 'holdfast-state[aws]'", False),
        ("pip install holdfast-pagw", False),
        ("pip install -e ./holdfast-clone", False),
        ("Run pip install holdfast-state, then `holdfast up`", False),
        ("holdfast up [SYSTEM]", False),
    ],
)
def test_bare_name_is_recognised(line: str, is_bare: bool) -> None:
    assert bool(BARE_NAME.search(line)) is is_bare


def test_no_file_is_empty_except_markers_of_packages() -> None:
    empty = {
        format_path(path)
        for path in (ROOT / name for name in list_versioned_files())
        if not path.stat().st_size
    }

    assert {
        name for name in empty if not name.endswith(("/py.typed", "/__init__.py", "py.typed.txt"))
    } == set()


def test_continuous_integration_runs_the_one_test_command() -> None:
    script = ROOT / ".ci" / "run"

    assert script.stat().st_mode & 0o111
    assert script.read_text(encoding="utf-8").splitlines()[-1] == "exec make test"


def _find_lines(pattern: re.Pattern[str]) -> list[str]:
    """Return `path:number: line` of each line of the project's files that matches."""
    return [
        f"{format_path(path)}:{number}: {line.strip()}"
        for path in (ROOT / name for name in list_versioned_files())
        if path.name not in THIRD_PARTY_TEXTS
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if pattern.search(line)
    ]
