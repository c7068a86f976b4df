"""Missing optional packages (extras): a command says so in one line; systems without theirs are skipped."""

from __future__ import annotations

import json
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


COMMANDS = [
    ("serve", "uvicorn"),
    ("serve", "uvloop"),
    ("up", "httptools"),
    ("up", "fastapi"),
    ("demo", "uvicorn"),
    ("demo", "boto3"),
    ("mcp", "mcp"),
]
# Installs two systems, a large and a small one, and no other.
TWO_SYSTEMS = """
from importlib.metadata import EntryPoint
from holdfast.core import installed_systems
group = installed_systems.ENTRY_POINT_GROUP
large = EntryPoint("richpanel", "richpanel.system:SYSTEM", group)
small = EntryPoint("shop", "tests.unit.reports.shop:SYSTEM", group)
installed_systems.find_entry_points = lambda group="": {} if group else {"richpanel": large, "shop": small}
"""
# Runs each list of words without a module and prints the exit code, the output and the errors of each.
RUN = """
import contextlib, io, json, sys
from holdfast.cli import main
outcomes = []
for missing, words in json.loads(sys.argv[1]):
    sys.modules[missing] = None
    code, out, err = 0, io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as done:
            code = done.code or 0
    del sys.modules[missing]
    outcomes.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(outcomes))
"""


def run_without(folder: Path, *runs: tuple[str, list[str]], prepare: str = "") -> list[tuple[int, str, str]]:
    """Run commands, each without a module, in one fresh process. Return their codes, outputs and errors."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    paths = (str(ROOT), env.get("PYTHONPATH"))
    done = subprocess.run(
        [sys.executable, "-c", prepare + RUN, json.dumps(runs)],
        cwd=folder,
        env=env | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [(code, out, err) for code, out, err in json.loads(done.stdout)]


def test_command_without_its_extra_ends_in_one_line_and_changes_nothing(tmp_path: Path) -> None:
    outcomes = run_without(tmp_path, *((missing, [command]) for command, missing in COMMANDS))

    for (command, missing), outcome in zip(COMMANDS, outcomes, strict=True):
        line = (
            f"holdfast: `holdfast {command}` needs {missing}, which is not installed: "
            f"run pip install 'holdfast-state[{EXTRAS[command]}]'\n"
        )
        assert outcome == (1, "", line)
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


def test_every_installable_extra_is_known_with_its_packages() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    brought = packages_distributions()
    assert set(MODULES_BY_EXTRA) == set(project["optional-dependencies"])
    for extra, wanted in project["optional-dependencies"].items():
        names = {re.split(r"[\[<>=~]", each)[0] for each in wanted}
        known = {
            re.sub(r"[._]", "-", name).lower()
            for module in MODULES_BY_EXTRA[extra]
            for name in brought[module]
        }
        assert known >= {each.lower() for each in names - SAME_MODULE}, extra


def test_skips_a_system_without_its_extra_and_rejects_it_by_name(tmp_path: Path) -> None:
    runs = [["check"], ["patterns", "--measure"]]
    named = [["check", "richpanel"], ["patterns", "richpanel", "--measure"]]

    every = [("obstore", words) for words in runs + named]
    outcomes = run_without(tmp_path, *every, prepare=TWO_SYSTEMS)

    needs = "needs obstore, which is not installed: run pip install 'holdfast-state[objects]'\n"
    for code, output, errors in outcomes[:2]:
        assert f"richpanel is skipped: it {needs}" in errors
        assert (code, "richpanel" in output, "shop" in output) == (0, False, True)
    assert outcomes[2:] == [(1, "", f"holdfast: The system richpanel {needs}")] * 2


def test_system_without_its_extra_does_not_block_the_others(tmp_path: Path) -> None:
    tables, patterns, doctor = run_without(
        tmp_path, *(("httpx2", words) for words in (["tables"], ["patterns"], ["doctor"]))
    )

    left_out = "".join(
        f"{name} is skipped: it needs httpx2, which is not installed: "
        "run pip install 'holdfast-state[http]'\n"
        for name in ("agenticpm", "pagw", "richpanel", "tripcortex")
    )
    assert (tables[0], tables[2]) == (patterns[0], patterns[2]) == (0, left_out)
    assert (doctor[0], doctor[2]) == (0, "")


def test_list_of_systems_names_a_missing_package_of_a_system(tmp_path: Path) -> None:
    [(code, output, _)] = run_without(tmp_path, ("airportsdata", ["systems"]))

    assert code == 0
    assert (
        "tripcortex needs airportsdata, which is not installed: run pip install holdfast-tripcortex\n"
    ) in output


def test_rejects_an_unknown_extra() -> None:
    with pytest.raises(DeclarationError, match="names an unknown extra 'queues'"):
        describe_missing_extras(System("shop", "Sells"), ("queues",))


@pytest.mark.parametrize("words", [["demo", "nowhere"], ["bench", "nothing"]])
def test_unknown_story_or_benchmark_is_a_usage_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        main(words)

    assert exited.value.code == 2
    assert capsys.readouterr().err.startswith("holdfast: Unknown ")
