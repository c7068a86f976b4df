"""`holdfast mcp --http` as a process of its own: address, tokens from the settings, logs, signals."""

from __future__ import annotations

import json
import logging
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from holdfast import open_stores
from holdfast.cli.commands import mcp
from holdfast.config.settings import Settings
from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.model.system import Privacy
from holdfast.runtime import create_tables
from tests.unit.mcp.harbour import SYSTEM, moor
from tests.unit.mcp.installed_system import HARBOUR, install_in_process, install_system, run_in_process
from tests.unit.mcp.mcp_client import call_tool
from tests.unit.mcp.test_http import connect
from tests.unit.mcp.test_stdio import COMMAND

URL, ISSUER = "https://agents.test/mcp", "https://issuer.test"
KEY = ec.generate_private_key(ec.SECP256R1())


async def test_serves_the_configured_stores_to_tokens_of_the_configured_issuer(tmp_path: Path) -> None:
    async with open_stores(SYSTEM, Settings(base=tmp_path)) as stores:
        await create_tables(stores, SYSTEM.tables)
        await moor(stores, "B1", 3)
    jwk = {**ECAlgorithm.to_jwk(KEY.public_key(), as_dict=True), "kid": "k"}
    (tmp_path / "jwks.json").write_text(json.dumps({"keys": [jwk]}), encoding="utf-8")
    (tmp_path / "holdfast.toml").write_text(
        f'mcp_url = "{URL}"\nmcp_token_issuer = "{ISSUER}"\nmcp_token_keys = "jwks.json"\n', encoding="utf-8"
    )
    claims = {
        "iss": ISSUER,
        "aud": URL,
        "sub": "ada",
        "exp": SYSTEM_CLOCK.now() + 60,
        "scope": "harbour.read",
    }
    token = jwt.encode(claims, KEY, algorithm="ES256", headers={"kid": "k"})
    with subprocess.Popen(
        [*COMMAND, "harbour", "--http", "--port", "0"],
        cwd=tmp_path,
        env=install_system(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = re.findall(r"http://\S+", line)[0]
        refused = httpx2.post(url, json={}).status_code
        async with connect(url, token) as agent:
            found = await call_tool(agent, "ships_at", berth="B1")
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert line == f"Harbour answers agents at {url} as the component agent\n"
    assert (refused, found["count"], process.returncode) == (401, 3, 0)
    logged = [json.loads(each) for each in errors.splitlines()]
    assert [(each["system"], each["component"]) for each in logged] == [("harbour", "agent")]
    assert logged[0]["message"].startswith("The tool ships_at answered in")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--port", "0"], "--host and --port need --http: give all, or none of them."),
        (["--http", "--host", "0.0.0.0", "--port", "0"], "Configure a token, or listen on 127.0.0.1."),
    ],
)
def test_rejects_options_that_would_open_the_server_to_everybody(
    words: list[str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    install_in_process(monkeypatch, harbour=HARBOUR)

    code, output, errors = run_in_process(capsys, "mcp", "harbour", *words)

    assert (code != 0, output) == (True, "")
    assert error in " ".join(errors.split())


def test_logs_are_redacted_as_every_served_system_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {}
    monkeypatch.setattr(mcp, "setup_logs", lambda _, **given: options.update(given))
    names = replace(SYSTEM, privacy=Privacy(redact_logs=lambda text: text.replace("Ada", "[name]")))
    numbers = replace(SYSTEM, privacy=Privacy(redact_logs=lambda text: text.replace("4711", "[number]")))

    mcp._setup_logs([names, SYSTEM, numbers], Settings(), logging.WARNING)

    assert options["redact"]("Ada has 4711 berths") == "[name] has [number] berths"
    assert (options["component"], options["level"]) == ("agent", logging.WARNING)
