"""Look up the locked packages in the OSV database of vulnerabilities, with pip-audit.

    python -m tools.release.audit [--osv-url URL]

Exit with 1 if a package has a known vulnerability. If the database cannot be reached, say so and exit with 0:
nothing was checked then.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LOCKS: Final = Path(__file__).parents[2] / "locks"
OSV_URL: Final = "https://api.osv.dev/v1/query"
TIMEOUT_S: Final = 15


def audit(locks: Sequence[Path], osv_url: str) -> int:
    """Print the known vulnerabilities of the packages in the locks and return the exit status."""
    if failure := _ask(osv_url):
        print(f"Not checked: the vulnerability database at {osv_url} cannot be reached ({failure}).")
        return 0
    with tempfile.TemporaryDirectory() as cache:
        files = [part for lock in locks for part in ("--requirement", str(lock))]
        options = [
            "--disable-pip",
            "--progress-spinner",
            "off",
            "--cache-dir",
            cache,
            "--timeout",
            str(TIMEOUT_S),
        ]
        service = ["--vulnerability-service", "osv", "--osv-url", osv_url]
        return subprocess.run(
            [sys.executable, "-m", "pip_audit", *files, *options, *service], check=False
        ).returncode


def _ask(osv_url: str) -> str:
    """Ask the database about one package. Return the reason if it does not answer, else an empty text."""
    query = {"package": {"name": "pip", "ecosystem": "PyPI"}, "version": "1.0"}
    request = urllib.request.Request(
        osv_url, json.dumps(query).encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            json.load(response)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def main(arguments: Sequence[str]) -> int:
    """Audit every lock with hashes in locks/."""
    parser = argparse.ArgumentParser(
        description="Look up the locked packages in a database of vulnerabilities."
    )
    parser.add_argument(
        "--osv-url", default=OSV_URL, help="address of the OSV query API (default: %(default)s)"
    )
    locks = [path for path in sorted(LOCKS.glob("*.txt")) if "--hash=" in path.read_text(encoding="utf-8")]
    return audit(locks, parser.parse_args(arguments).osv_url)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
