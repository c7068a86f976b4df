"""What works on Windows, run in a process without the modules and functions that Windows does not have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.contract.moto import moto_endpoint

ROOT = Path(__file__).parents[3]
SEATS = "Amal has 07A; free: ['07B']\n"


def run_without_posix(part: str, folder: Path, **variables: str) -> str:
    """Run a part of `windows_process` in the folder and return what it printed."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.contract.platforms.windows_process", part],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_every_module_can_be_imported(tmp_path: Path) -> None:
    assert run_without_posix("imports", tmp_path) == ""


def test_the_model_runs_on_dynamodb(tmp_path: Path) -> None:
    credentials = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    with moto_endpoint() as address:
        output = run_without_posix(
            "model", tmp_path, HOLDFAST_TABLES=f"dynamodb+http://{address}", **credentials
        )
    assert output == SEATS


def test_the_model_runs_in_memory(tmp_path: Path) -> None:
    assert run_without_posix("model", tmp_path, HOLDFAST_TABLES="sqlite::memory:") == SEATS


def test_engines_that_keep_files_say_what_works_instead(tmp_path: Path) -> None:
    files, needs = "A file of tables or queues", "needs Linux or macOS; on Windows, use"
    services = "DynamoDB (`dynamodb://REGION`) and SQS (`sqs://REGION`), or memory (`sqlite::memory:`)."
    assert run_without_posix("embedded", tmp_path).splitlines() == [
        f"{files} {needs} {services}",
        f"{files} {needs} {services}",
        f"A key file {needs} a KMS key in the setting `keys`.",
        f"The embedded PostgreSQL {needs} a server by its URL in the setting `sql`.",
        f"An objects folder {needs} S3 in the setting `objects`.",
    ]


def test_the_endpoint_runs_without_uvloop(tmp_path: Path) -> None:
    assert run_without_posix("server", tmp_path) == "[]\n"
