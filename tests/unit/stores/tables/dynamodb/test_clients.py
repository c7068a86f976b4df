"""Where the DynamoDB engine gets credentials, region and endpoint, and the error if one is missing."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import pytest

from holdfast.core.errors import DeclarationError, SettingsError
from holdfast.operations.tables import ListTables
from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb

from .endpoints import Reply, ok, run_scripted_endpoint, run_signature_endpoint


@pytest.fixture
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove the credentials and the region from the environment."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(variable)


async def list_tables(**settings: Any) -> None:
    """Open an engine with these settings and list its tables."""
    async with open_dynamodb(**settings) as tables:
        await tables.run(ListTables())


async def capture_signature_scope(**settings: Any) -> str:
    """Return the scope that a request to a local endpoint was signed for: key, day, region."""
    seen: list[str] = []

    with run_signature_endpoint(lambda *_: ok(TableNames=[]), seen.append) as url:
        await list_tables(endpoint=url, **settings)
    [authorization] = seen
    return authorization.partition("Credential=")[2].partition("/dynamodb/")[0]


def test_aws_without_a_region_is_refused_with_the_remedy(empty_environment: None) -> None:
    with pytest.raises(SettingsError, match="AWS_DEFAULT_REGION"):
        open_dynamodb()


def test_aws_without_credentials_is_refused_with_the_remedy(empty_environment: None) -> None:
    with pytest.raises(DeclarationError, match="AWS_ACCESS_KEY_ID"):
        open_dynamodb(region="eu-central-1")


def test_remote_endpoint_without_credentials_is_refused(empty_environment: None) -> None:
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


async def test_local_server_needs_neither_region_nor_credentials(empty_environment: None) -> None:
    assert (await capture_signature_scope()).split("/")[0] == "holdfast"


async def test_local_server_gets_configured_credentials() -> None:
    assert (await capture_signature_scope(region="eu-west-1")).split("/")[::2] == ["testing", "eu-west-1"]


@pytest.mark.parametrize("endpoint", ["127.0.0.1:8000", "ftp://127.0.0.1", "http://", "nonsense"])
def test_rejects_an_invalid_address(endpoint: str) -> None:
    with pytest.raises(SettingsError, match="http://127.0.0.1:8000"):
        open_dynamodb(endpoint=endpoint)


def test_rejects_a_missing_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")

    with pytest.raises(SettingsError, match="nobody"):
        open_dynamodb(region="eu-central-1")


def test_rejects_zero_threads() -> None:
    with pytest.raises(SettingsError, match="at least one"):
        open_dynamodb(region="eu-central-1", threads=0)


def test_without_the_sdk_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(SettingsError, match=r"pip install 'holdfast-state\[aws\]'"):
        open_dynamodb(region="eu-central-1")


async def test_reports_credentials_that_cannot_be_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    config = tmp_path / "config"
    config.write_text("[profile failing]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_PROFILE", "failing")
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(variable)

    with pytest.raises(SettingsError, match="AWS_PROFILE"):
        await list_tables(region="eu-central-1", backoff=Backoff(max_attempts=1))


def test_sdk_is_imported_only_when_an_engine_is_opened() -> None:
    code = "import sys, holdfast.stores.tables.dynamodb; print('botocore' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


async def test_sdk_itself_never_retries() -> None:
    with (
        run_scripted_endpoint(lambda *_: Reply(500, b"{}")) as (url, requests),
        pytest.raises(Exception, match="500"),
    ):
        await list_tables(endpoint=url, backoff=Backoff(max_attempts=1))

    assert len(requests) == 1
