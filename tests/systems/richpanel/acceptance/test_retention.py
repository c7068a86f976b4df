"""Stored data, in memory and in files: no personal text, archive, explanations, lifetimes, erasure."""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from holdfast import open_stores, provision
from holdfast.cli.app import app
from holdfast.cli.commands.run import build_system_app
from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound, SettingsError
from holdfast.core.logs import setup_logs
from holdfast.guarantees import build_retention_report, erase, is_proof_intact, scan_files
from holdfast.runtime import export_csv
from holdfast.web import serve_in_thread
from richpanel.api.explain import explain_routing
from richpanel.domain.orders import hash_email
from richpanel.model import patterns, replay_archive
from richpanel.model.entities import TABLES, ActionAudit
from richpanel.system import SYSTEM
from tests.systems.richpanel.acceptance.middleware import (
    EMAIL,
    ORDER,
    START,
    STATUS,
    ManualClock,
    Middleware,
    make_file_settings,
    run,
    start_middleware,
)

PHONE = "+1 415 555 0199"
NAME = "Ottilie Featherstone"
WORDS = [
    f"{STATUS} Call me on {PHONE}. Regards, {NAME}",
    f"I will file a chargeback with my bank, reach me at {EMAIL}",
    f"The parcel {ORDER.tracking} never came, says {NAME}",
]
PERSONAL = [*WORDS, EMAIL, PHONE, NAME, "W2378156", "2378156", ORDER.tracking]


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """Log of the middleware's processes, with their configuration."""
    path = tmp_path / "worker.log"
    with path.open("w") as stream:
        handler = setup_logs(stream, redact=SYSTEM.privacy.redact_logs, system=SYSTEM.name)
        yield path
        logging.getLogger().removeHandler(handler)


async def run_conversation(middleware: Middleware) -> None:
    """Run a conversation with replies, a risk, help desk failures and duplicates."""
    await middleware.enable_automation("email")
    middleware.set_faults(failed_after=0.3, seed=5)
    for text in WORDS:
        payload = middleware.write(text) | {"text": text, "customer": {"email": EMAIL}}
        for _ in range(2):
            assert (await middleware.deliver(payload)).status_code == 200
        await middleware.drain_queue()
    assert len(middleware.ledger) >= 8


# --- no personal text ---------------------------------------------------------------------------------------


@pytest.mark.proves("RP-2")
@pytest.mark.proves("RP-3")
@pytest.mark.proves("RP-37")
def test_stores_and_logs_hold_no_personal_text(tmp_path: Path, log_file: Path) -> None:
    data = tmp_path / "data"

    async def test() -> None:
        async with start_middleware(make_file_settings(data)) as middleware:
            await run_conversation(middleware)
            # While the stores are open, the last writes are in the write-ahead logs.
            assert (data / "tables.db-wal").stat().st_size > 0
            assert scan_files([data, log_file], needles=PERSONAL) == []
            logging.getLogger("richpanel.test").error("customer %s said %s", NAME, WORDS[2])
            assert {each.kind for each in scan_files([log_file], needles=PERSONAL)} == {"needle"}

    run(test())
    assert "richpanel.workers.worker" in log_file.read_text()
    assert scan_files([data], needles=PERSONAL) == []
    with (data / "queues.db").open("ab") as file:
        file.write(EMAIL.encode())
    assert {each.kind for each in scan_files([data], needles=PERSONAL)} == {"needle", "email"}


@pytest.mark.proves("RP-44")
def test_archive_keeps_encrypted_text_when_enabled(tmp_path: Path) -> None:
    data = tmp_path / "data"

    async def test() -> None:
        async with start_middleware(make_file_settings(data), archive=True) as middleware:
            await run_conversation(middleware)
            assert scan_files([data], needles=PERSONAL) == []
            record = await middleware.get_record("evt:rp:c-1:m-1")
            assert record is not None
            kept = await middleware.stores.run(replay_archive.archived("c-1", record.event_id))
            assert json.loads(kept.body)["event"]["text"] == WORDS[0]

    run(test())
    assert len([file for file in (data / "objects").rglob("*") if file.is_file()]) >= len(WORDS)


@pytest.mark.proves("RP-44")
def test_archive_is_off_by_default(tmp_path: Path) -> None:
    async def test() -> None:
        async with start_middleware(make_file_settings(tmp_path / "data")) as middleware:
            await run_conversation(middleware)
            record = await middleware.get_record("evt:rp:c-1:m-1")
            assert record is not None
            with pytest.raises(NotFound):
                await middleware.stores.run(replay_archive.archived("c-1", record.event_id))

    run(test())


# --- why ----------------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-31")
def test_explains_by_command_http_and_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make_file_settings(tmp_path / "data")

    async def test() -> list[str]:
        async with start_middleware(settings) as middleware:
            await run_conversation(middleware)
            api = middleware.stores.for_component("api")
            result = await explain_routing(api, "c-1")
            assert [each["key"] for each in result.data] == [each.reference for each in middleware.ledger]
            of_event = await explain_routing(api, "evt:rp:c-1:m-2")
            assert of_event.data and all(each["key"].endswith(":m-2") for each in of_event.data)
            assert any("chargeback" in each["reasons"] for each in of_event.data)
            with pytest.raises(NotFound):
                await explain_routing(api, "c-nobody")
            with serve_in_thread(build_system_app(SYSTEM, middleware.stores, component="api")) as url:
                async with httpx2.AsyncClient(base_url=url) as client:
                    answer = await client.get("/conversations/c-1/why")
                    assert answer.json()["lines"] == list(result.lines)
                    assert (await client.get("/conversations/c-nobody/why")).status_code == 404
            return list(result.lines)

    lines = run(test())
    for name in ("tables", "queues", "objects", "keys", "environment"):
        monkeypatch.setenv(f"HOLDFAST_{name.upper()}", getattr(settings, name))
    (tmp_path / "clock").write_text(repr(START.timestamp()))
    monkeypatch.setenv("HOLDFAST_RUN_CLOCK", str(tmp_path / "clock"))
    printed = CliRunner().invoke(app, ["why", "richpanel", "c-1"])
    assert printed.exit_code == 0
    assert printed.stdout.splitlines() == lines


@pytest.mark.proves("RP-30")
def test_audit_can_be_switched_off() -> None:
    async def test() -> None:
        async with start_middleware(audit=False) as middleware:
            await run_conversation(middleware)
            assert await middleware.list_audit() == ()
            with pytest.raises(NotFound, match="keeps no audit"):
                await explain_routing(middleware.stores.for_component("api"), "c-1")

    run(test())


@pytest.mark.proves("RP-45")
@pytest.mark.proves("RP-29")
def test_audit_can_be_kept_for_years_and_exported(tmp_path: Path) -> None:
    async def test() -> None:
        async with start_middleware(audit_days=3650) as middleware:
            await run_conversation(middleware)
            for entry in await middleware.list_audit():
                assert entry.expires_at - entry.at > timedelta(days=3649)
            path = tmp_path / "audit.csv"
            assert await export_csv(middleware.stores, ActionAudit, path) == len(middleware.ledger)
            with path.open() as file:
                keys = [row["idempotency_key"] for row in csv.DictReader(file)]
            assert keys == [each.reference for each in middleware.ledger]

    run(test())


# --- lifetimes and environments -----------------------------------------------------------------------------


@pytest.mark.proves("RP-4")
@pytest.mark.proves("RP-8")
@pytest.mark.proves("RP-22")
@pytest.mark.proves("RP-29")
def test_retention_report_has_an_end_for_every_table() -> None:
    rows = [each for each in build_retention_report(SYSTEM) if each.what.startswith("items: ")]
    days = {each.name: (each.seconds or 0) / 86400 for each in rows if each.name.startswith("rp_mw_")}
    assert days == {
        "rp_mw_idempotency": 30,
        "rp_mw_conversation_state": 90,
        "rp_mw_audit_actions": 60,
        "rp_mw_customers": 91,
        "rp_mw_switches": 365,
        "rp_mw_reply_quality": 365,
    }
    others = [each for each in build_retention_report(SYSTEM) if each.store != "tables"]
    assert [each.what for each in others if each.seconds is None] == ["objects under a legal hold"]


@pytest.mark.proves("RP-5")
@pytest.mark.proves("RP-X1")
def test_two_environments_in_one_file_are_isolated(tmp_path: Path) -> None:
    prod = make_file_settings(tmp_path / "data")
    dev = Settings(
        tables=prod.tables, queues=prod.queues, objects=prod.objects, keys=prod.keys, environment="dev"
    )

    async def test() -> None:
        async with start_middleware(prod) as middleware:
            await run_conversation(middleware)
        async with open_stores(SYSTEM, dev, clock=ManualClock()) as stores:
            await provision(stores, SYSTEM)
            assert await stores.run(patterns.record("evt:rp:c-1:m-1")) is None
            assert await stores.run(patterns.state("c-1")) is None
            assert await stores.run(patterns.read_switches()) is None
            assert {stores.physical_name(each) for each in TABLES} == {f"{each.name}-dev" for each in TABLES}

    run(test())


@pytest.mark.proves("RP-5")
@pytest.mark.proves("RP-X1")
def test_refuses_to_store_data_without_an_environment_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_ENVIRONMENT"):
        open_stores(SYSTEM, Settings(tables=f"sqlite:{tmp_path / 'tables.db'}"))


# --- erasure ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "subject"),
    [("conversation", "c-1"), ("customer", EMAIL), ("customer", hash_email(EMAIL))],
)
def test_erasure_leaves_nothing_of_one_customer_and_keeps_others(
    tmp_path: Path, kind: str, subject: str
) -> None:
    data = tmp_path / "data"
    other = "thaddeus@mail.example"

    async def test() -> None:
        async with start_middleware(make_file_settings(data), archive=True) as middleware:
            await run_conversation(middleware)
            await middleware.send("I can't log in", "c-2", email=other)
            middleware.set_faults()
            await middleware.drain_queue()
            traces = ["evt:rp:c-1:", "act:rp_assign:c-1:", hash_email(EMAIL)]
            assert scan_files([data / "tables.db", data / "tables.db-wal"], needles=traces)

            done = await erase(SYSTEM, middleware.stores, subject, kind=kind)
            assert is_proof_intact(done.proof)
            effects = [each for each in middleware.ledger if each.ticket_id == "c-1"]
            assert done.deleted == {
                "rp-mw-replay-archive": len(WORDS),
                "rp_mw_idempotency": len(WORDS) + len(effects),
                "rp_mw_audit_actions": len(effects),
                "rp_mw_conversation_state": 1,
                "rp_mw_customers": 1,
            }
            # Queue messages expire by themselves, and the proof lists what erasure cannot see in a bucket.
            # Nothing else is left.
            assert {each.where.split()[0] for each in done.remains} == {"queue", "bucket"}
            assert scan_files([data / "tables.db", data / "tables.db-wal"], needles=traces) == []
            assert await middleware.get_state("c-1") is None
            assert await middleware.list_audit("c-1") == ()
            assert [each.name for each in (data / "objects").rglob("*") if "m-1" in each.name] == []
            assert await middleware.get_state("c-2") is not None
            assert len(await middleware.list_audit("c-2")) == len(middleware.ledger) - len(effects)

    run(test())
