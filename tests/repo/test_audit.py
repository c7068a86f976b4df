"""The audit of the locks: it reports vulnerabilities, and never calls an unchecked lock safe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.repo.test_dependencies import LOCKS, read_pins

ROOT = Path(__file__).parents[2]


class OsvStandIn(ThreadingHTTPServer):
    """A stand-in for the query API of OSV: it records the queries and knows one vulnerability at most."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), OsvStandInHandler)
        self.status = 200
        self.vulnerable = ""
        self.queries: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1/query"


class OsvStandInHandler(BaseHTTPRequestHandler):
    """Answers a query as OSV does: an empty object for a package without vulnerabilities."""

    server: OsvStandIn

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = query["package"]["name"]
        self.server.queries.append((name, query["version"]))
        found = {
            "id": "PYSEC-2026-1",
            "affected": [{"package": query["package"], "ranges": [], "versions": [query["version"]]}],
        }
        body = json.dumps({"vulns": [found]} if name == self.server.vulnerable else {}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@pytest.fixture
def osv() -> Iterator[OsvStandIn]:
    with OsvStandIn() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _audit(url: str) -> subprocess.CompletedProcess[str]:
    """Run the program of `make audit`."""
    return subprocess.run(
        [sys.executable, "-m", "tools.release.audit", "--osv-url", url],
        cwd=ROOT,
        env=os.environ | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def test_an_unreachable_database_is_reported_as_not_checked() -> None:
    with OsvStandIn() as closed:
        url = closed.url

    done = _audit(url)

    assert done.returncode == 0
    assert done.stdout.startswith(f"Not checked: the vulnerability database at {url} cannot be reached (")
    assert len(done.stdout.splitlines()) == 1


def test_a_database_that_fails_is_reported_as_not_checked(osv: OsvStandIn) -> None:
    osv.status = 503

    done = _audit(osv.url)

    assert done.returncode == 0
    assert done.stdout.startswith("Not checked:")
    assert "503" in done.stdout


def test_every_locked_package_is_looked_up(osv: OsvStandIn) -> None:
    done = _audit(osv.url)

    assert (done.returncode, done.stdout) == (0, "No known vulnerabilities found\n")
    assert {pin for lock in LOCKS for pin in read_pins(lock).items()} <= set(osv.queries)


def test_a_known_vulnerability_fails_the_audit(osv: OsvStandIn) -> None:
    osv.vulnerable = "pyjwt"

    done = _audit(osv.url)

    assert done.returncode == 1
    assert "Found 1 known vulnerability in 1 package" in done.stdout
    assert "PYSEC-2026-1" in done.stdout
