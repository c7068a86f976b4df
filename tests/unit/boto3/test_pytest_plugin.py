"""The pytest plugin: loaded in every test suite, it imports nothing until its fixture is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WITHOUT_BOTO3 = """
import sys
sys.modules["boto3"] = sys.modules["botocore"] = None
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "test_suite.py"]))
"""


def run_suite_without_boto3(folder: Path, test: str) -> subprocess.CompletedProcess[str]:
    """Run one test with pytest in a process without boto3 that finds the plugin by its entry point."""
    (folder / "test_suite.py").write_text(test, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_BOTO3],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_unrelated_suite_passes_without_boto3(tmp_path: Path) -> None:
    done = run_suite_without_boto3(tmp_path, "def test_sums(): assert 1 + 1 == 2\n")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_fixture_names_the_extra_without_boto3(tmp_path: Path) -> None:
    done = run_suite_without_boto3(tmp_path, "def test_orders(holdfast_dynamodb): pass\n")

    assert done.returncode == 1
    assert (
        "ModuleNotFoundError: holdfast.boto3 needs boto3, which is not installed. "
        "Run pip install 'holdfast-state[aws]'" in done.stdout
    )


def test_plugin_imports_only_what_pytest_already_imports() -> None:
    program = (
        "import sys, pytest; before = set(sys.modules); import holdfast.pytest_plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "['holdfast', 'holdfast.pytest_plugin']"
