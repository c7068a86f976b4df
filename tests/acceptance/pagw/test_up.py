"""`holdfast up pagw` on a machine where nobody has set anything: sandboxes, secrets and addresses go together by themselves."""

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

import pagw
from holdfast.cli.commands.up import _build_children
from holdfast.config.settings import Settings
from pagw.demo.sample.bundles import build_request_bundle
from pagw.demo.sandbox.issuer import get_secret
from pagw.demo.sandbox.payer_rules import PENDED_APPROVED
from pagw.system import SYSTEM

WAIT_S = 60.0
LOOK_S = 0.1
OWN = ("HOLDFAST_", "PAGW_")


@contextmanager
def up(folder: Path) -> Iterator[dict[str, str]]:
    """The addresses that it prints, by who answers there."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(OWN)}
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "up", "pagw"],
        cwd=folder,
        env=clean | {"HOLDFAST_API_PORT": "0", "HOLDFAST_SERVE_PORT": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield _addresses(process, {"payer", "issuer", "client", "PAGW", "pagw"})
        finally:
            process.terminate()
            assert process.wait(timeout=WAIT_S) == 0


def _addresses(process: subprocess.Popen[str], wanted: set[str]) -> dict[str, str]:
    assert process.stdout is not None
    found: dict[str, str] = {}
    while not wanted <= set(found):
        line = process.stdout.readline()
        assert line, f"it ended, and had told of {found}"
        if stated := re.match(r"(?:The sandbox )?(\w+) .*(http://[0-9.]+:[0-9]+)", line):
            found[stated[1]] = stated[2]
    return found


@pytest.mark.proves("PG-43")
@pytest.mark.proves("PG-56")
def test_a_client_gets_a_token_submits_and_sees_it_completed_by_the_payers_callback(tmp_path: Path) -> None:
    with up(tmp_path) as at, httpx.Client(timeout=WAIT_S) as http:
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

        _until(http, request, status="PENDED", stage="payer")
        http.post(f"{at['payer']}/sandbox/decisions", json={"reference": pagw_id}).raise_for_status()
        _until(http, request, status="COMPLETED", decision="approved")
        _until(http, f"{request}/deliveries", lambda told: told["items"][0]["status"] == "delivered")
        received = http.get(f"{at['client']}/sandbox/received").json()["received"]
        assert [(each["pagw_id"], each["kind"]) for each in received] == [(pagw_id, "callback")]
        _follow_the_readme(tmp_path, at)


def _follow_the_readme(folder: Path, at: dict[str, str]) -> None:
    """Every line that the page types in the other terminal, from top to bottom, in one shell."""
    page = Path(pagw.__file__).with_name("README.md").read_text(encoding="utf-8")
    typed = "\n".join(re.findall(r"^```sh\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE))
    typed = typed.replace(". .venv/bin/activate", "")
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
        timeout=2 * WAIT_S,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.findall(r"HTTP/1\.1 (\d+)", done.stdout) == ["200", "202", "202", "422", "422"]
    assert "idempotency-replayed: true" in done.stdout
    for told in ('"status":"active"', '"kind":"notification"', "of them are active", "standard requests: "):
        assert told in done.stdout, f"{told!r} is not in\n{done.stdout}"


def _until(http: httpx.Client, url: str, holds: Any = None, **wanted: Any) -> None:
    ends = time.monotonic() + WAIT_S
    while True:
        told = http.get(url).raise_for_status().json()
        if holds(told) if holds else wanted.items() <= told.items():
            return
        assert time.monotonic() < ends, told
        time.sleep(LOOK_S)


def test_what_somebody_has_set_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGW_ISSUER_URL", "https://issuer.example")
    monkeypatch.setenv("HOLDFAST_SECRET_PAGW_LOOKUP_KEY", "of the operator")
    monkeypatch.delenv("PAGW_PAYER_URL", raising=False)
    children = _build_children(Settings(environment="dev"), [SYSTEM])
    (api,) = [each for each in children if each.name == "The API of PAGW"]
    assert "PAGW_PAYER_URL" in api.variables
    assert api.variables["PAGW_PUBLIC_URL"] == "http://127.0.0.1:8080"
    assert not {"PAGW_JWKS_URL", "PAGW_TOKEN_ISSUER", "HOLDFAST_SECRET_PAGW_LOOKUP_KEY"} & set(api.variables)
    assert not [each for each in children if "issuer" in each.name]
