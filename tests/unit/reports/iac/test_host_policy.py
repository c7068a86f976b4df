"""A served app under its component's IAM policy: it starts, is healthy and runs every pattern.

The policy is enforced by a simulator in front of embedded tables.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import httpx
import pytest
from fastapi import APIRouter

from holdfast import Stores, System
from holdfast.cli.commands.run import build_system_app
from holdfast.core.errors import AccessRefused, HoldfastError
from holdfast.model.system import Http
from holdfast.operations.tables import CreateTable, ListTables
from holdfast.reports.iam.policies import build_policy_files
from holdfast.runtime import create_tables, provision_tables
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.web import serve_in_thread
from tests.unit.reports.dispatch_desk import SYSTEM as DESK
from tests.unit.reports.dispatch_desk import desk
from tests.unit.reports.iac.iam_simulator import GuardedTables

SYSTEM = replace(DESK, http=Http(routes=lambda _: APIRouter()))
NAMED = [component.name for component in SYSTEM.components if component.patterns]


def open_guarded_tables(system: System, component: str, behind: EmbeddedTables) -> GuardedTables:
    """Return tables that refuse what the component's policy does not allow; `behind` runs the rest."""
    files = build_policy_files(system)
    policies = [
        json.loads(text) for name, text in files.items() if name.startswith(f"{system.name}-{component}")
    ]
    return GuardedTables(behind, system, policies)


@contextmanager
def run_host(component: str) -> Iterator[tuple[str, GuardedTables]]:
    """Serve the desk's app as the component, with the permissions of its policy."""
    with open_tables() as behind:
        asyncio.run(create_tables(Stores(behind, system=SYSTEM), SYSTEM.tables))
        engine = open_guarded_tables(SYSTEM, component, behind)
        with serve_in_thread(
            build_system_app(SYSTEM, Stores(engine, system=SYSTEM), component=component)
        ) as url:
            yield url, engine


@pytest.mark.parametrize("component", NAMED)
def test_host_starts_is_healthy_and_serves_metrics(component: str) -> None:
    with run_host(component) as (url, engine):
        health, metrics = httpx.get(f"{url}/health/ready"), httpx.get(f"{url}/metrics")
        of_others = {each.resource for each in engine.refused}

    assert (health.status_code, metrics.status_code) == (200, 200)
    own = {
        f"table/{table.name}"
        for table in SYSTEM.tables
        for pattern in SYSTEM.get_component(component).patterns
        if pattern.build_example().table is table
    }
    assert own and not own & of_others


def test_metrics_report_the_index_progress_of_own_tables_only() -> None:
    with run_host("board") as (url, _):
        text = httpx.get(f"{url}/metrics").text

    assert (
        'OnlineIndexPercentageProgress{GlobalSecondaryIndexName="open-tickets",TableName="Desk"} 100.0'
        in text
    )
    assert 'GlobalSecondaryIndexName="by-team",TableName="Agents"} 100.0' not in text


def test_logs_a_warning_about_tables_that_it_may_not_describe(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), run_host("board"):
        pass

    assert "The table Agents is used unchanged" in caplog.text
    assert "The table Desk is" not in caplog.text


def test_reports_health_even_without_describe_permission() -> None:
    with run_host("board") as (url, engine):
        engine.policies = []
        assert httpx.get(f"{url}/health/ready").status_code == 200


@pytest.mark.parametrize("component", NAMED)
def test_every_pattern_of_the_component_runs(component: str) -> None:
    async def story() -> list[str]:
        with open_tables() as behind:
            await create_tables(Stores(behind, system=SYSTEM), SYSTEM.tables)
            stores = Stores(open_guarded_tables(SYSTEM, component, behind), system=SYSTEM).for_component(
                component
            )
            refused = []
            for pattern in SYSTEM.get_component(component).patterns:
                try:
                    await stores.run(pattern.build_example())
                except AccessRefused:
                    refused.append(pattern.id)
                except HoldfastError:
                    pass  # the example's item is missing: only the permission matters
            return refused

    assert asyncio.run(story()) == []


def test_rejects_a_missing_table_that_it_may_not_create() -> None:
    async def story() -> None:
        with open_tables() as behind:
            await provision_tables(
                Stores(open_guarded_tables(SYSTEM, "board", behind), system=SYSTEM), [desk]
            )

    with pytest.raises(AccessRefused, match="CreateTable"):
        asyncio.run(story())


def test_rejected_credentials_are_not_treated_as_missing_permissions() -> None:
    class Unknown:
        async def run(self, operation: object) -> object:
            raise AccessRefused("UnrecognizedClientException", "The security token is invalid.")

    with pytest.raises(AccessRefused, match="security token"):
        asyncio.run(provision_tables(Stores(Unknown(), system=SYSTEM), [desk]))  # type: ignore[arg-type]


def test_creates_missing_tables_if_permitted() -> None:
    async def story() -> tuple[dict[str, AccessRefused], int]:
        with open_tables() as behind:
            await behind.run(CreateTable(desk.definition("Desk")))
            unseen = await provision_tables(Stores(behind, system=SYSTEM), SYSTEM.tables)
            return unseen, len((await behind.run(ListTables())).names)

    assert asyncio.run(story()) == ({}, 3)
