"""Commands that need an extra say so in one line, before they have done anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.extras import MODULES

EXTRAS = {"serve": "serve", "up": "serve,api", "demo": "serve,aws", "mcp": "mcp"}


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("serve", "uvicorn"),
        ("serve", "uvloop"),
        ("up", "httptools"),
        ("up", "fastapi"),
        ("demo", "uvicorn"),
        ("demo", "boto3"),
        ("mcp", "mcp"),
    ],
)
def test_without_its_extra_a_command_ends_in_one_line_and_leaves_nothing(
    tmp_path: Path, command: str, missing: str
) -> None:
    program = (
        f"import sys; sys.modules[{missing!r}] = None; from holdfast.cli import main; main([{command!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stderr) == (
        1,
        f"holdfast: `holdfast {command}` needs {missing}, which this installation does not have: "
        f"pip install '.[{EXTRAS[command]}]' in the clone of Holdfast, or make setup\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_tables_at_a_service_need_its_extra_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "dynamodb://us-east-1")
    monkeypatch.setitem(sys.modules, "boto3", None)

    for command in (["run", "harbour"], ["mcp"]):
        with pytest.raises(SystemExit):
            main(command)
        assert "needs boto3, which" in capsys.readouterr().err


def test_all_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (*MODULES["serve"], *MODULES["aws"]):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(SystemExit):
        main(["demo"])
    assert "needs uvicorn, httptools, uvloop, boto3, which" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["demo", "nowhere"], ["bench", "nothing"]])
def test_a_story_or_benchmark_that_is_not_there_is_called_wrongly(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(words)

    assert exited.value.code == 2
    assert capsys.readouterr().err.startswith("holdfast: There is no ")
