"""`holdfast up pagw` without settings: it configures sandboxes, secrets and addresses by itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.cli.commands.up import _build_children
from holdfast.config.settings import Settings
from holdfast_demo.pagw.sample.bundles import build_request_bundle
from holdfast_demo.pagw.sandbox.issuer import get_secret
from holdfast_demo.pagw.sandbox.payer_rules import PENDED_APPROVED
from pagw.system import SYSTEM
from tests.docs import pages

WAIT_S = 60.0
LOOK_S = 0.1
OWN = ("HOLDFAST_", "PAGW_")


@contextmanager
def start_up(folder: Path) -> Iterator[dict[str, str]]:
    """Run `holdfast up` and yield the addresses it prints, by the name of the server."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "pagw", "--no-console"],
        cwd=folder,
        env=clean | {"HOLDFAST_API_PORT": "0", "HOLDFAST_SERVE_PORT": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield _read_addresses(process, {"payer", "issuer", "client", "PAGW", "pagw"})
        finally:
            process.terminate()
            assert process.wait(timeout=WAIT_S) == 0


def _read_addresses(process: subprocess.Popen[str], wanted: set[str]) -> dict[str, str]:
    """Read the process's output until it has printed the addresses of all `wanted` servers."""
    assert process.stdout is not None
    found: dict[str, str] = {}
    while not wanted <= set(found):
        line = process.stdout.readline()
        assert line, f"holdfast up ended after printing {found}"
        if stated := re.match(r"(?:The sandbox )?(\w+) .*(http://[0-9.]+:[0-9]+)", line):
            found[stated[1]] = stated[2]
    return found


@pytest.mark.proves("PG-43", "PG-56")
def test_request_completes_end_to_end_and_the_readme_commands_work(tmp_path: Path) -> None:
    with start_up(tmp_path) as at, httpx.Client(timeout=WAIT_S) as http:
        proof = ("acme-client", get_secret("acme-client"))
        answer = http.post(f"{at['issuer']}/token", data={"grant_type": "client_credentials"}, auth=proof)
        http.headers["authorization"] = f"Bearer {answer.json()['access_token']}"

        submitted = http.post(
            f"{at['PAGW']}/pas/requests",
            content=json.dumps(build_request_bundle(items=(PENDED_APPROVED,))),
            headers={
                "content-type": "application/fhir+json",
                "x-idempotency-key": "up-1",
                "x-callback-url": f"{at['client']}/callbacks/acme",
            },
        )
        assert submitted.status_code == 202, submitted.text
        pagw_id = submitted.json()["pagwId"]
        request = f"{at['PAGW']}/pas/requests/{pagw_id}"

        _wait_until(http, request, status="PENDED", stage="payer")
        http.post(f"{at['payer']}/sandbox/decisions", json={"reference": pagw_id}).raise_for_status()
        _wait_until(http, request, status="COMPLETED", decision="approved")
        _wait_until(http, f"{request}/deliveries", lambda body: body["items"][0]["status"] == "delivered")
        received = http.get(f"{at['client']}/sandbox/received").json()["received"]
        assert [(each["pagw_id"], each["kind"]) for each in received] == [(pagw_id, "callback")]
        _run_page_commands(tmp_path, at)


def _run_page_commands(folder: Path, at: dict[str, str]) -> None:
    """Run every shell line of the page in one shell, from top to bottom."""
    page = (pages.DOCS / "systems" / "pagw" / "index.md").read_text(encoding="utf-8")
    typed = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE))
    for port, party in {8080: "PAGW", 8082: "payer", 8083: "issuer", 8084: "client"}.items():
        typed = typed.replace(f"http://127.0.0.1:{port}", at[party])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}

    done = subprocess.run(
        ["bash", "-e", "-c", typed],
        cwd=folder,
        env=clean | {"PATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"HTTP/1\.1 (\d+)", done.stdout) == ["200", "202", "202", "422", "422"]
    assert "idempotency-replayed: true" in done.stdout
    for expected in (
        '"status":"active"',
        '"kind":"notification"',
        "of them are active",
        "standard requests: ",
    ):
        assert expected in done.stdout, f"{expected!r} is not in\n{done.stdout}"


def _wait_until(http: httpx.Client, url: str, holds: Any = None, **wanted: Any) -> None:
    """Poll a URL until its body has the `wanted` fields, or `holds` accepts it. Fail after `WAIT_S`."""
    ends = time.monotonic() + WAIT_S
    while True:
        body = http.get(url).raise_for_status().json()
        if holds(body) if holds else wanted.items() <= body.items():
            return
        assert time.monotonic() < ends, body
        time.sleep(LOOK_S)


def test_keeps_settings_that_the_operator_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGW_ISSUER_URL", "https://issuer.example")
    monkeypatch.setenv("HOLDFAST_SECRET_PAGW_LOOKUP_KEY", "of the operator")
    monkeypatch.delenv("PAGW_PAYER_URL", raising=False)
    children = _build_children(Settings(environment="dev"), [SYSTEM])
    (api,) = [each for each in children if each.name == "The API of PAGW"]
    assert "PAGW_PAYER_URL" in api.variables
    assert api.variables["PAGW_PUBLIC_URL"] == "http://127.0.0.1:8080"
    assert not {"PAGW_JWKS_URL", "PAGW_TOKEN_ISSUER", "HOLDFAST_SECRET_PAGW_LOOKUP_KEY"} & set(api.variables)
    assert not [each for each in children if "issuer" in each.name]
