"""`holdfast doctor` reports the health of the cache, in memory and on a Redis, if a system uses one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Rate, System, pattern
from holdfast.cli import main
from holdfast.model.cache import CachedValue, GetCached
from tests.contract.redis_server import RedisServer


class Payer(BaseModel):
    name: str


payers = CachedValue("payer:{payer_id}", Payer, lifetime_s=300)


@pattern("C0", "A pattern whose example does not fit", rate=Rate("request"))
def without_example(payer_id: str) -> GetCached[Payer]:
    """Return an access pattern without an example, which does not show doctor that a cache is used."""
    return payers.get(payer_id=payer_id)


@pattern("C1", "A payer", rate=Rate("request"), example=("p-1",))
def payer(payer_id: str) -> GetCached[Payer]:
    return payers.get(payer_id=payer_id)


@pytest.fixture(autouse=True)
def _system_with_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `gateway`, which uses the cache, the only installed system, and run in an empty folder."""
    system = System("gateway", "A gateway", patterns=[without_example, payer])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"gateway": system})


def run_doctor(capsys: pytest.CaptureFixture[str]) -> tuple[Any, list[dict[str, Any]]]:
    """Run `holdfast doctor --json` and return its exit code and its entries about the cache."""
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    return exited.value.code, [each for each in found if each["store"] == "cache"]


@pytest.mark.proves("PG-53")
def test_reachable_redis_is_healthy(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", shared_redis.address)
    code, [health] = run_doctor(capsys)
    assert code == 0
    detail = f"{shared_redis.address}, reachable"
    assert health == {"store": "cache", "engine": "redis", "ok": True, "detail": detail}


@pytest.mark.proves("PG-53")
def test_unreachable_redis_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", "redis://127.0.0.1:1/0")
    code, [health] = run_doctor(capsys)
    assert (code, health["ok"]) == (1, False)
    assert "redis://127.0.0.1:1/0 does not respond" in health["detail"]


def test_missing_password_is_reported_with_its_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("HOLDFAST_CACHE_SECRET", "gateway-cache")
    code, [health] = run_doctor(capsys)
    assert (code, health["ok"]) == (1, False)
    assert "HOLDFAST_SECRET_GATEWAY_CACHE" in health["detail"]


def test_memory_cache_is_healthy(capsys: pytest.CaptureFixture[str]) -> None:
    code, [health] = run_doctor(capsys)
    assert (code, health["engine"], health["ok"]) == (0, "memory", True)


def test_unused_cache_is_not_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = System("gateway", "A gateway", patterns=[without_example])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"gateway": system})
    monkeypatch.setenv("HOLDFAST_CACHE", "redis://127.0.0.1:1/0")
    code, found = run_doctor(capsys)
    assert (code, found) == (0, [])
