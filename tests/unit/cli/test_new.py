"""`holdfast new`: which names it accepts, what it writes, and that it leaves nothing behind when it fails."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from holdfast import __version__
from holdfast.cli import main
from holdfast.cli.commands.new import MAX_NAME_CHARACTERS, TEMPLATE, render_template

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run_command(*words: str) -> int:
    """Run the command line and return its exit code."""
    with pytest.raises(SystemExit) as exited:
        main(list(words))
    assert isinstance(exited.value.code, int)
    return exited.value.code


def test_prints_the_files_and_the_next_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("new", "help_desk") == 0
    files, steps = capsys.readouterr().out.split("\n\n")

    written = [path for path in Path("help_desk").rglob("*") if path.is_file()]
    assert sorted(files.splitlines()) == sorted(map(str, written))
    assert [line.strip() for line in steps.splitlines()[1:]] == [
        "cd help_desk",
        "pip install -e '.[dev]'",
        "pytest",
        "holdfast check help_desk",
        "holdfast run help_desk",
    ]


def test_writes_into_the_folder_of_path_and_prints_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my projects").mkdir()

    assert run_command("new", "helpdesk", "--path", "my projects", "--json") == 0
    listed = json.loads(capsys.readouterr().out)
    assert "my projects/helpdesk/src/helpdesk/system.py" in listed
    assert all((tmp_path / file).is_file() for file in listed)

    assert run_command("new", "archive", "--path", "my projects") == 0
    assert "  cd 'my projects/archive'\n" in capsys.readouterr().out


def test_the_project_names_its_distribution_its_entry_point_and_the_versions_of_holdfast() -> None:
    project = tomllib.loads(render_template("help_desk")["pyproject.toml"])["project"]
    major, minor = __version__.split(".")[:2]

    assert project["name"] == "help-desk"
    assert project["entry-points"]["holdfast.systems"] == {"help_desk": "help_desk.system:SYSTEM"}
    assert project["dependencies"] == [
        f"holdfast-state[api]>={__version__},<{major}.{int(minor) + 1}",
    ]


def test_no_placeholder_remains() -> None:
    files = render_template("helpdesk")

    assert files
    assert [path for path, text in files.items() if "{{" in path + text] == []


def test_the_wheel_contains_every_file_of_the_template() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]

    assert "**/*.txt" in settings["package-data"]["*"]
    # A wildcard of package data matches no name that starts with a dot.
    files = [path for path in TEMPLATE.rglob("*") if path.is_file()]
    assert [path.name for path in files if path.suffix != ".txt" or path.name.startswith(".")] == []


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("Help-Desk", "Try help_desk."),
        ("help desk", "Try help_desk."),
        ("_help__desk", "Try help_desk."),
        ("../helpdesk", "Try helpdesk."),
        ("Désk", "Try desk."),
        ("straße", "starting with a letter."),
        ("2fast", "starting with a letter."),
        ("", "starting with a letter."),
        ("a" * (MAX_NAME_CHARACTERS + 1), "starting with a letter."),
    ],
)
def test_rejects_a_name_that_is_not_a_package_name_and_suggests_one(
    name: str, nearest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("new", name) == 2
    refusal = capsys.readouterr().err.strip()

    assert refusal.startswith(f"holdfast: Invalid name {name!r}: expected a Python package name")
    assert refusal.endswith(nearest)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("class", 2, "a keyword of Python"),
        ("json", 2, "another module of that name"),
        ("tests", 2, "another module of that name"),
        ("check", 1, "`holdfast check` is a command"),
        ("typer", 1, "the module typer is installed"),
        ("harbour", 1, "`holdfast harbour` is a command or an installed system"),
        ("sea_chart", 1, "the distribution sea-chart is installed"),
    ],
)
def test_rejects_a_name_that_is_taken(
    name: str,
    code: int,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    packages = tmp_path / "packages"
    for installed, points in {"port": "[holdfast.systems]\nharbour = port:SYSTEM\n", "Sea.Chart": ""}.items():
        record = packages / f"{installed}-1.0.dist-info"
        record.mkdir(parents=True)
        (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {installed}\nVersion: 1.0\n")
        (record / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(str(packages))

    assert run_command("new", name) == code
    refusal = capsys.readouterr().err
    assert reason in refusal
    assert refusal.endswith("Choose another name.\n")
    assert list(tmp_path.iterdir()) == [packages]


def test_leaves_an_existing_folder_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "helpdesk").mkdir()

    assert run_command("new", "helpdesk") == 1
    assert "helpdesk already exists" in capsys.readouterr().err
    assert list(tmp_path.rglob("*")) == [tmp_path / "helpdesk"]


def test_rejects_a_missing_parent_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("new", "helpdesk", "--path", "absent") == 1
    assert "Folder not found: absent." in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_text = Path.write_text

    def fail_at_the_last_file(path: Path, text: str, encoding: str) -> int:
        if path.name == "test_tasks.py":
            raise OSError(28, "No space left on device", str(path))
        return write_text(path, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", fail_at_the_last_file)

    assert run_command("new", "helpdesk") == 1
    assert "No space left on device" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
