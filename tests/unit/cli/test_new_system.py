"""The system that `holdfast new` creates: its tests and checks pass, it installs, and its API answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import httpx
import pytest

from holdfast.cli import main
from holdfast.cli.commands.new import MAX_NAME_CHARACTERS

ROOT = Path(__file__).parents[3]
NAME = "help_desk"
TIMEOUT_S = 120
# Only what needs no package index: the packages that the new system depends on are installed here.
INSTALL = ("pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation")
# Runs each command with `--json`, which must succeed, and prints what each printed.
RUN_COMMANDS = """
import contextlib, io, json, sys
from holdfast.cli import main
printed = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        try:
            main([*words, "--json"])
        except SystemExit as done:
            assert not done.code, words
    printed.append(output.getvalue())
print(json.dumps(printed))
"""


def run_module(folder: Path, *words: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python -m WORDS` in a folder, without the developer's settings, and return what it printed."""
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=build_env(packages),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def build_env(packages: Path | None = None) -> dict[str, str]:
    """Return an environment with this Holdfast and the packages installed in a folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTEST_"))}
    paths = [str(packages)] if packages else []
    paths += [os.environ["PYTHONPATH"]] if "PYTHONPATH" in os.environ else []
    return env | {"PYTHONPATH": os.pathsep.join(paths), "MYPYPATH": str(ROOT / "src")}


def create_system(folder: Path, name: str = NAME) -> Path:
    """Create a system with the command and return its folder."""
    with chdir(folder), pytest.raises(SystemExit) as exited:
        main(["new", name])
    assert exited.value.code == 0
    return folder / name


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_system(tmp_path_factory.mktemp("new"))


@pytest.fixture(scope="module")
def packages(system: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the system, not editable, into a folder of its own."""
    target = tmp_path_factory.mktemp("packages")
    done = run_module(system, *INSTALL, "--target", str(target), ".")
    assert done.returncode == 0, done.stderr
    return target


# Its name decides how long lines are and how imports are sorted.
@pytest.mark.parametrize("check", [("format", "--check"), ("check",)], ids=" ".join)
def test_is_formatted_and_passes_the_linter(check: tuple[str, ...], tmp_path: Path) -> None:
    for name in ("ab", NAME, "zoo", "z" * MAX_NAME_CHARACTERS):
        create_system(tmp_path, name)

    done = run_module(tmp_path, "ruff", *check, "--no-cache")

    assert done.returncode == 0, done.stdout


def test_passes_the_strict_type_check(system: Path) -> None:
    done = run_module(system, "mypy")

    assert done.returncode == 0, done.stdout
    assert "strict = true" in (system / "pyproject.toml").read_text(encoding="utf-8")


def test_its_tests_pass_before_it_is_installed(system: Path) -> None:
    done = run_module(system, "pytest", "-q")

    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_its_tests_fail_if_a_rule_is_broken(tmp_path: Path) -> None:
    system = create_system(tmp_path)
    patterns = system / "src" / NAME / "model" / "patterns.py"
    text = patterns.read_text(encoding="utf-8")
    patterns.write_text(text.replace(".until(now)", ".query()"), encoding="utf-8")

    done = run_module(system, "pytest", "-q")

    assert ".until(now)" in text
    assert done.returncode == 1
    assert "test_the_worker_marks_open_tasks_after_their_due_time" in done.stdout


@pytest.fixture(scope="module")
def printed(system: Path, packages: Path) -> dict[str, str]:
    """Return what the commands print about the installed system, by command, from one process."""
    commands = (
        ["systems"],
        ["check", NAME],
        ["patterns", NAME, "--measure"],
        ["docs", NAME, "--out", "page"],
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN_COMMANDS, json.dumps(commands)],
        cwd=system,
        env=build_env(packages),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip((command for command, *_ in commands), json.loads(done.stdout), strict=True))


def test_is_listed_after_its_installation(printed: dict[str, str], packages: Path) -> None:
    assert NAME in [each["system"] for each in json.loads(printed["systems"]) if "error" not in each]
    assert (packages / NAME / "py.typed").exists()


def test_its_design_has_no_errors_and_no_warnings(printed: dict[str, str]) -> None:
    assert {finding["severity"] for finding in json.loads(printed["check"])} == {"info"}


def test_every_pattern_runs_with_its_example(printed: dict[str, str]) -> None:
    measured = json.loads(printed["patterns"])

    assert measured
    assert [each["id"] for each in measured if each["reason"]] == []


def test_its_documentation_can_be_written(printed: dict[str, str], system: Path) -> None:
    assert [Path(each) for each in json.loads(printed["docs"])] == [Path("page", f"{NAME}.md")]
    assert (system / "page" / f"{NAME}.md").exists()


@pytest.fixture
def url(system: Path, packages: Path) -> Iterator[str]:
    """Run the system in a process and yield the address of its API."""
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "run", NAME, "--port", "0"],
        cwd=system,
        env=build_env(packages),
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("Help desk answers at http://127.0.0.1:"), line
            yield line.split()[4]
        finally:
            process.terminate()


def test_its_api_answers_over_http(system: Path, url: str) -> None:
    created = httpx.post(f"{url}/tasks", json={"title": "Order paper", "priority": "urgent"})

    assert created.status_code == 201
    assert httpx.get(f"{url}/tasks").json()["items"] == [created.json()]
    missing = httpx.get(f"{url}/tasks/01J0000000000000000000000A")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert (system / "data" / "tables.db").exists()
