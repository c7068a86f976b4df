"""Suites written for moto run on Holdfast after one changed import; a failure has a stated reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).parent / "moto_suites"
IMPORT = "from moto import mock_aws\n"
CHANGED = "from holdfast.boto3 import mock_aws\n"
# The requests that moto accepts, and DynamoDB's answer to each.
REASONS = (
    "Filter Expression can only contain non-primary key attributes: Primary key attribute: name",
    "Invalid KeyConditionExpression: Attribute name is a reserved keyword; reserved keyword: name",
    "assert Decimal('1') == 2",  # the token made the second request a repeat of the first
)


def run_suite(folder: Path, name: str, imported: str) -> subprocess.CompletedProcess[str]:
    """Run a suite in a process of its own, with moto's import replaced by `imported`."""
    text = (SUITES / f"{name}.py").read_text(encoding="utf-8")
    assert text.count(IMPORT) == 1
    path = folder / f"test_{name}.py"
    path.write_text(text.replace(IMPORT, imported), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("imported", [IMPORT, CHANGED], ids=["moto", "holdfast"])
@pytest.mark.parametrize(
    ("name", "passed"), [("suite_fixtures", 5), ("suite_decorators", 4), ("suite_classes", 6)]
)
def test_suite_passes(name: str, passed: int, imported: str, tmp_path: Path) -> None:
    done = run_suite(tmp_path, name, imported)

    assert f"\n{passed} passed" in done.stdout, done.stdout + done.stderr


def test_suite_that_depends_on_accepted_mistakes_passes_on_moto_only(tmp_path: Path) -> None:
    assert "\n3 passed" in run_suite(tmp_path, "suite_lax", IMPORT).stdout

    done = run_suite(tmp_path, "suite_lax", CHANGED)
    assert "\n3 failed" in done.stdout, done.stdout + done.stderr
    for reason in REASONS:
        assert reason in done.stdout
