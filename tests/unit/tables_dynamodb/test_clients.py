"""Where credentials, region and endpoint come from, and what is said when one is missing."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from holdfast.core.errors import DeclarationError, SettingsError
from holdfast.operations.tables import ListTables
from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb

from .endpoints import Reply, listening, ok, scripted


@pytest.fixture
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable)


async def listed(**settings: Any) -> None:
    async with open_dynamodb(**settings) as tables:
        await tables.run(ListTables())


def signature_of(**settings: Any) -> str:
    """The scope that a request to a local endpoint was signed for: key, day, region."""
    seen: list[str] = []

    with listening(lambda *_: ok(TableNames=[]), seen.append) as url:
        asyncio.run(listed(endpoint=url, **settings))
    [authorization] = seen
    return authorization.partition("Credential=")[2].partition("/dynamodb/")[0]


def test_aws_without_a_region_is_refused_with_the_remedy(nothing_set: None) -> None:
    with pytest.raises(SettingsError, match="AWS_DEFAULT_REGION"):
        open_dynamodb()


def test_aws_without_credentials_is_refused_with_the_remedy(nothing_set: None) -> None:
    with pytest.raises(DeclarationError, match="AWS_ACCESS_KEY_ID"):
        open_dynamodb(region="eu-central-1")


def test_another_machine_without_credentials_is_refused_too(nothing_set: None) -> None:
    with pytest.raises(SettingsError, match="tables.example"):
        open_dynamodb(endpoint="https://tables.example")


def test_aws_is_found_by_its_region() -> None:
    tables = open_dynamodb(region="eu-central-1")
    endpoint = tables._service._clients.endpoint
    tables.close()

    assert endpoint == "https://dynamodb.eu-central-1.amazonaws.com"


def test_the_region_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "ap-south-1")
    tables = open_dynamodb()
    endpoint = tables._service._clients.endpoint
    tables.close()

    assert "ap-south-1" in endpoint


def test_a_server_on_this_machine_needs_neither(nothing_set: None) -> None:
    assert signature_of().split("/")[0] == "holdfast"


def test_a_server_on_this_machine_gets_the_credentials_there_are() -> None:
    assert signature_of(region="eu-west-1").split("/")[::2] == ["testing", "eu-west-1"]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "nonsense"])
def test_what_is_no_address_is_refused(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="http://127.0.0.1:8000"):
        open_dynamodb(endpoint=endpoint)


def test_a_profile_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    with pytest.raises(SettingsError, match="nobody"):
        open_dynamodb(region="eu-central-1")


def test_no_thread_to_ask_with_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least one"):
        open_dynamodb(region="eu-central-1", threads=0)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(SettingsError, match=r"pip install '\.\[aws\]'"):
        open_dynamodb(region="eu-central-1")


def test_credentials_that_cannot_be_fetched_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    config = tmp_path / "config"
    config.write_text("[profile failing]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "failing")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)

    with pytest.raises(SettingsError, match="AWS_PROFILE"):
        asyncio.run(listed(region="eu-central-1", backoff=Backoff(attempts_max=1)))


def test_the_sdk_is_asked_for_only_when_an_engine_is_opened() -> None:
    code = "import sys, holdfast.stores.tables.dynamodb; print('botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_requests_are_sent_once_by_the_sdk_itself() -> None:
    with scripted(lambda *_: Reply(500, b"{}")) as (url, asked), pytest.raises(Exception, match="500"):
        asyncio.run(listed(endpoint=url, backoff=Backoff(attempts_max=1)))

    assert len(asked) == 1
