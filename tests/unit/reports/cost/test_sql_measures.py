"""Measures, costs and role grants of SQL patterns, on a temporary PostgreSQL."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from holdfast import Component, System
from holdfast.model.sql import SqlOperation
from holdfast.model.system import load_systems
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.system_cost import SystemCost, estimate_cost
from holdfast.reports.examples import build_example
from holdfast.reports.iam.sql_grants import build_grant_files, get_role_name
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from holdfast.stores.sql.postgres.values import register_types
from tests import postgres
from tests.unit.reports.surgery import SYSTEM, surgery, visits


@pytest.fixture(scope="module")
def found() -> tuple[dict[str, Measure], int, SystemCost]:
    """Return the surgery's measures by id, the number of visits left, and the cost."""

    async def run() -> tuple[dict[str, Measure], int, SystemCost]:
        async with open_sample_data(SYSTEM) as ground:
            measures = await measure_patterns(ground, SYSTEM.patterns)
            left = len(await ground.stores.run(visits("ada")))
            cost = await estimate_cost(SYSTEM, ground, load_price_list())
            return {each.pattern.id: each for each in measures}, left, cost

    return asyncio.run(run())


def test_runs_every_pattern_with_its_example_and_rolls_back(found: Any) -> None:
    measures, left, _ = found

    assert {id: each.reason for id, each in measures.items() if not each.is_measured} == {}
    assert left == 3


def test_counts_the_rows_of_a_statement_as_items_returned(found: Any) -> None:
    measures, _, _ = found

    assert [measures[id].items_returned for id in ("V1", "V2", "V3", "V6")] == [1, 3, 1, 0]


def test_measures_a_dependent_statement_after_the_one_it_needs(found: Any) -> None:
    measures, _, _ = found

    assert (measures["V4"].is_measured, measures["V4"].items_returned) == (True, 1)


def test_says_that_sql_and_cache_have_no_price_per_request(found: Any) -> None:
    _, _, cost = found
    left_out = {each.pattern.id: each.reason for each in cost.uncounted}

    assert set(left_out) == {each.id for each in SYSTEM.patterns if each.id[0] in "VC"}
    assert "billed by the capacity and storage of its instances" in left_out["V1"]
    assert "billed by its nodes" in left_out["C1"]


def test_role_may_do_only_what_its_component_does() -> None:
    [text] = build_grant_files(SYSTEM).values()
    with psycopg.connect(postgres.create_database(surgery), autocommit=True) as owner:
        for _ in range(2):
            owner.execute(text.encode())
        owner.execute("SET ROLE surgery_desk")
        owner.execute(
            "INSERT INTO surgery.visits (patient, status, begun_at) VALUES ('ada', 'open', '2026-11-02')"
        )
        assert owner.execute("SELECT count(*) FROM surgery.visits").fetchone() == (1,)
        for refused in ("DELETE FROM surgery.visits", "SELECT id FROM surgery.prescriptions"):
            with pytest.raises(InsufficientPrivilege):
                owner.execute(refused)
        owner.execute("SET ROLE surgery_doctor")
        owner.execute("UPDATE surgery.visits SET status = 'done' WHERE patient = 'ada'")
        with pytest.raises(InsufficientPrivilege):
            owner.execute("SELECT nextval('surgery.visits_id_seq')")


WITH_SQL = [each for each in (*load_systems().values(), SYSTEM) if each.schemas]


@pytest.mark.parametrize("system", WITH_SQL, ids=lambda system: str(system.name))
def test_role_may_run_every_statement_of_its_component(system: System) -> None:
    [text] = build_grant_files(system).values()
    with psycopg.connect(postgres.create_database(*system.schemas), autocommit=True) as owner:
        register_types(owner)
        owner.execute(text.encode())
        refused = [
            each
            for component in system.components
            for each in _find_refused_statements(owner, system, component)
        ]

    assert refused == []


def _find_refused_statements(
    owner: psycopg.Connection[Any], system: System, component: Component
) -> list[tuple[str, str]]:
    """Return (component, pattern id) of each statement that the component's role may not run."""
    found = []
    for pattern in component.patterns:
        for part in build_example(pattern).parts:
            if isinstance(part, SqlOperation) and not _is_permitted(
                owner, get_role_name(system, component.name), part
            ):
                found.append((component.name, pattern.id))
    return found


def _is_permitted(owner: psycopg.Connection[Any], role: str, operation: SqlOperation[Any]) -> bool:
    """Return True if the role may run the statement; constraint errors on empty tables do not count."""
    try:
        with owner.transaction(force_rollback=True):
            owner.execute(f"SET LOCAL ROLE {role}".encode())
            owner.execute(operation.text.encode(), operation.parameters)
    except InsufficientPrivilege:
        return False
    except psycopg.errors.IntegrityError:
        pass
    return True
