"""The guide to agents: the configurations of clients connect, and the settings that it shows are valid."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from holdfast.config.settings import Settings
from tests.docs import pages
from tests.unit.mcp.test_http import connect

PAGE = pages.DOCS / "guides" / "agents.md"
BLOCKS = list(pages.parse_blocks(PAGE))
COMMAND = Path(sys.executable).with_name("holdfast")


def read_configurations() -> list[dict[str, Any]]:
    """Return the configuration of each server that the page shows: on this machine, by its address, with a
    token.
    """
    found = [json.loads(block.text)["mcpServers"] for block in BLOCKS if block.language == "json"]
    return [each["skymarshal"] for each in found]


def read_console() -> tuple[list[str], str]:
    """Return the command of the server that the page starts, and what it prints."""
    [typed, printed] = next(block.text for block in BLOCKS if block.language == "console").splitlines()
    return typed.removeprefix("$ holdfast ").split(), printed


async def test_the_configuration_of_a_process_starts_a_server_that_an_agent_can_use(tmp_path: Path) -> None:
    local = read_configurations()[0]
    assert shutil.which(local["command"], path=str(COMMAND.parent)) == str(COMMAND)
    server = StdioServerParameters(command=str(COMMAND), args=local["args"], cwd=tmp_path)
    async with Client(stdio_client(server)) as agent:
        names = [tool.name for tool in (await agent.list_tools()).tools]

    assert "who_is_hit" in names


async def test_the_configuration_of_an_address_connects_to_the_command_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, without_token, by_address = read_configurations()
    token = by_address["headers"]["Authorization"].removeprefix("Bearer ")
    monkeypatch.setenv("HOLDFAST_API_TOKEN", token)
    words, printed = read_console()
    shown = re.findall(r"http://\S+", printed)[0]
    with subprocess.Popen(
        [COMMAND, *words, "--port", "0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        url = re.findall(r"http://\S+", line)[0]
        async with connect(url, token) as agent:
            names = [tool.name for tool in (await agent.list_tools()).tools]
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0

    assert line.replace(url, shown) == printed
    assert "who_is_hit" in names
    assert without_token == {"type": "http", "url": shown}
    assert (by_address["type"], by_address["url"].endswith("/mcp")) == ("http", True)


def test_the_settings_of_an_issuer_are_valid(tmp_path: Path) -> None:
    [block] = [block for block in BLOCKS if block.language == "toml"]
    file = tmp_path / "holdfast.toml"
    file.write_text(block.text, encoding="utf-8")
    settings = Settings.load(file, {})

    assert settings.mcp_url == read_configurations()[2]["url"]
    assert (settings.mcp_token_issuer, settings.mcp_keys_source) == (
        "https://login.example.org",
        "https://login.example.org/.well-known/jwks.json",
    )
