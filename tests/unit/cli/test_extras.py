"""Missing optional packages (extras): a command says so in one line; systems without theirs are skipped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.cli.extras import MODULES_BY_EXTRA, describe_missing_extras
from holdfast.core.errors import DeclarationError
from holdfast.model.system import System

ROOT = Path(__file__).parents[3]
# They share the module `opentelemetry` with one another.
SAME_MODULE = {"opentelemetry-sdk", "opentelemetry-exporter-prometheus"}
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
def test_command_without_its_extra_ends_in_one_line_and_changes_nothing(
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
        f"holdfast: `holdfast {command}` needs {missing}, which is not installed: "
        f"run pip install 'holdfast-state[{EXTRAS[command]}]'\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_run_and_mcp_with_dynamodb_tables_need_boto3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_TABLES", "dynamodb://us-east-1")
    monkeypatch.setitem(sys.modules, "boto3", None)

    for command in (["run", "harbour"], ["mcp"]):
        with pytest.raises(SystemExit):
            main(command)
        assert "needs boto3, which" in capsys.readouterr().err


def test_error_names_every_missing_module(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in (*MODULES_BY_EXTRA["serve"], *MODULES_BY_EXTRA["aws"]):
        monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(SystemExit):
        main(["demo"])
    assert "needs uvicorn, httptools, uvloop, boto3, which are not installed:" in capsys.readouterr().err


# --- systems ------------------------------------------------------------------------------------------------


def test_every_installable_extra_is_known_with_its_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    brought = packages_distributions()
    assert set(MODULES_BY_EXTRA) == set(project["optional-dependencies"])
    for extra, wanted in project["optional-dependencies"].items():
        names = {re.split(r"[\[<>=~]", each)[0] for each in wanted}
        known = {re.sub(r"[._]", "-", name) for module in MODULES_BY_EXTRA[extra] for name in brought[module]}
        assert known >= names - SAME_MODULE, extra


@pytest.mark.parametrize("words", [["check"], ["patterns", "--measure"]])
def test_skips_a_system_without_its_extra_with_a_line(tmp_path: Path, words: list[str]) -> None:
    done = run_without(["obstore"], tmp_path, *words)

    assert "Traceback" not in done.stderr
    assert (
        "richpanel is skipped: it needs obstore, which is not installed: "
        "run pip install 'holdfast-state[objects]'\n"
    ) in done.stderr
    assert (done.returncode, "richpanel" in done.stdout, "skymarshal" in done.stdout) == (0, False, True)


@pytest.mark.parametrize("words", [["check", "richpanel"], ["patterns", "richpanel", "--measure"]])
def test_rejects_a_named_system_without_its_extra(tmp_path: Path, words: list[str]) -> None:
    done = run_without(["obstore"], tmp_path, *words)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "holdfast: The system richpanel needs obstore, which is not installed: "
        "run pip install 'holdfast-state[objects]'\n"
    )


@pytest.mark.parametrize("words", [["tables"], ["patterns"], ["doctor"]])
def test_system_without_its_extra_does_not_block_the_others(tmp_path: Path, words: list[str]) -> None:
    done = run_without(["httpx2"], tmp_path, *words)

    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    left_out = "".join(
        f"{name} is skipped: it needs httpx2, which is not installed: "
        "run pip install 'holdfast-state[http]'\n"
        for name in ("agenticpm", "pagw", "richpanel", "tripcortex")
    )
    assert done.stderr == ("" if words == ["doctor"] else left_out)


def test_list_of_systems_names_a_missing_package_of_a_system(tmp_path: Path) -> None:
    done = run_without(["airportsdata"], tmp_path, "systems")

    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert (
        "tripcortex needs airportsdata, which is not installed: run pip install holdfast-tripcortex\n"
    ) in done.stdout


def test_rejects_an_unknown_extra() -> None:
    with pytest.raises(DeclarationError, match="names an unknown extra 'queues'"):
        describe_missing_extras(System("shop", "Sells"), ("queues",))


def run_without(modules: list[str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command in an installation without these modules."""
    program = (
        f"import sys; sys.modules |= dict.fromkeys({modules!r}); "
        f"from holdfast.cli import main; main({list(words)!r})"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={name: each for name, each in os.environ.items() if not name.startswith("HOLDFAST_")},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.parametrize("words", [["demo", "nowhere"], ["bench", "nothing"]])
def test_unknown_story_or_benchmark_is_a_usage_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(words)

    assert exited.value.code == 2
    assert capsys.readouterr().err.startswith("holdfast: Unknown ")
