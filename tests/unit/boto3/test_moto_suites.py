"""Suites written for moto run on Holdfast after one changed import; a failure has a stated reason."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
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


def run_suites(folder: Path, imported: str) -> str:
    """Run the suites in one process, with moto's import replaced by `imported`, and return its output."""
    for suite in SUITES.glob("suite_*.py"):
        text = suite.read_text(encoding="utf-8")
        assert text.count(IMPORT) == 1
        (folder / f"test_{suite.name}").write_text(text.replace(IMPORT, imported), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--tb=line"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    imports = {"moto": IMPORT, "holdfast": CHANGED}
    return {library: run_suites(tmp_path_factory.mktemp(library), each) for library, each in imports.items()}


def count_outcomes(output: str, suite: str) -> Counter[str]:
    """Count the outcomes of the tests of a suite."""
    return Counter(re.findall(rf"^test_{suite}\.py::\S+ (\w+)", output, re.MULTILINE))


@pytest.mark.parametrize("library", ["moto", "holdfast"])
@pytest.mark.parametrize(
    ("suite", "passed"), [("suite_fixtures", 5), ("suite_decorators", 4), ("suite_classes", 6)]
)
def test_suite_passes(suite: str, passed: int, library: str, outputs: dict[str, str]) -> None:
    assert count_outcomes(outputs[library], suite) == {"PASSED": passed}, outputs[library]


def test_suite_that_depends_on_accepted_mistakes_passes_on_moto_only(outputs: dict[str, str]) -> None:
    assert count_outcomes(outputs["moto"], "suite_lax") == {"PASSED": 3}
    assert count_outcomes(outputs["holdfast"], "suite_lax") == {"FAILED": 3}
    for reason in REASONS:
        assert reason in outputs["holdfast"]
