"""`holdfast doctor` of a cache: whether it answers, where a system uses one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import CachedValue, GetCached, Rate, System, pattern
from holdfast.cli import main
from tests.contract.redis_server import RedisServer


class Payer(BaseModel):
    name: str


payers = CachedValue("payer:{payer_id}", Payer, lifetime_s=300)


@pattern("C0", "A pattern whose example does not fit", rate=Rate("request"))
def without_example(payer_id: str) -> GetCached[Payer]:
    return payers.get(payer_id=payer_id)


@pattern("C1", "A payer", rate=Rate("request"), example=("p-1",))
def payer(payer_id: str) -> GetCached[Payer]:
    return payers.get(payer_id=payer_id)


@pytest.fixture(autouse=True)
def _one_system_with_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = System("gateway", "A gateway", [], [without_example, payer])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"gateway": system})


def examined(capsys: pytest.CaptureFixture[str]) -> tuple[Any, list[dict[str, Any]]]:
    with pytest.raises(SystemExit) as exited:
        main(["doctor", "--json"])
    found = json.loads(capsys.readouterr().out)
    return exited.value.code, [each for each in found if each["store"] == "cache"]


@pytest.mark.proves("PG-53")
def test_a_redis_that_answers_is_well(
    redis_of_the_run: RedisServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", redis_of_the_run.address)
    code, [health] = examined(capsys)
    assert code == 0
    detail = f"{redis_of_the_run.address}, reachable"
    assert health == {"store": "cache", "engine": "redis", "ok": True, "detail": detail}


@pytest.mark.proves("PG-53")
def test_a_redis_that_does_not_answer_is_ill(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", "redis://127.0.0.1:1/0")
    code, [health] = examined(capsys)
    assert (code, health["ok"]) == (1, False)
    assert "redis://127.0.0.1:1/0 gives no answer" in health["detail"]


def test_a_password_that_is_not_set_is_ill_and_says_where_to_put_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_CACHE", "redis://127.0.0.1:1/0")
    monkeypatch.setenv("HOLDFAST_CACHE_SECRET", "gateway-cache")
    code, [health] = examined(capsys)
    assert (code, health["ok"]) == (1, False)
    assert "HOLDFAST_SECRET_GATEWAY_CACHE" in health["detail"]


def test_a_cache_in_memory_is_well(capsys: pytest.CaptureFixture[str]) -> None:
    code, [health] = examined(capsys)
    assert (code, health["engine"], health["ok"]) == (0, "memory", True)


def test_a_cache_that_no_system_uses_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = System("gateway", "A gateway", [], [without_example])
    monkeypatch.setattr("holdfast.model.system.load_systems", lambda: {"gateway": system})
    monkeypatch.setenv("HOLDFAST_CACHE", "redis://127.0.0.1:1/0")
    code, found = examined(capsys)
    assert (code, found) == (0, [])
