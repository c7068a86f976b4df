"""Statements really run on a PostgreSQL that is gone afterwards; grants really given there, and kept to."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from holdfast import Component, System, load_systems
from holdfast.model.sql import SqlOperation
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.cost.system_cost import SystemCost, estimate_cost
from holdfast.reports.examples import build_example
from holdfast.reports.iam.sql_grants import build_grant_files, get_role_name
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from holdfast.stores.sql.postgres.values import teach
from tests import postgres
from tests.unit.reports.surgery import SYSTEM, surgery, visits


@pytest.fixture(scope="module")
def found() -> tuple[dict[str, Measure], int, SystemCost]:
    async def run() -> tuple[dict[str, Measure], int, SystemCost]:
        async with open_sample_data(SYSTEM) as ground:
            measures = await measure_patterns(ground, SYSTEM.patterns)
            left = len(await ground.stores.run(visits("ada")))
            cost = await estimate_cost(SYSTEM, ground, load_price_list())
            return {each.pattern.id: each for each in measures}, left, cost

    return asyncio.run(run())


def test_every_pattern_runs_with_its_example_and_is_undone(found: Any) -> None:
    measures, left, _ = found

    assert {id: each.reason for id, each in measures.items() if not each.is_measured} == {}
    assert left == 3


def test_rows_are_counted(found: Any) -> None:
    measures, _, _ = found

    assert [measures[id].items_returned for id in ("V1", "V2", "V3", "V6")] == [1, 3, 1, 0]


def test_what_goes_on_from_the_row_of_another_is_measured_after_it(found: Any) -> None:
    measures, _, _ = found

    assert (measures["V4"].is_measured, measures["V4"].items_returned) == (True, 1)


def test_sql_and_the_cache_have_no_price_per_request_and_it_is_said(found: Any) -> None:
    _, _, cost = found
    left_out = {each.pattern.id: each.reason for each in cost.uncounted}

    assert set(left_out) == {each.id for each in SYSTEM.patterns if each.id[0] in "VC"}
    assert "billed by the capacity and storage of its instances" in left_out["V1"]
    assert "billed by its nodes" in left_out["C1"]


def test_a_role_may_do_what_its_component_does_and_nothing_else() -> None:
    [text] = build_grant_files(SYSTEM).values()
    with psycopg.connect(postgres.fresh_database(surgery), autocommit=True) as owner:
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
def test_no_statement_of_a_component_is_refused_to_its_role(system: System) -> None:
    [text] = build_grant_files(system).values()
    with psycopg.connect(postgres.fresh_database(*system.schemas), autocommit=True) as owner:
        teach(owner)
        owner.execute(text.encode())
        refused = [each for component in system.components for each in _refused(owner, system, component)]

    assert refused == []


def _refused(owner: psycopg.Connection[Any], system: System, component: Component) -> list[tuple[str, str]]:
    """The statements of a component that its role may not run; what the empty tables refuse does not count."""
    found = []
    for pattern in component.patterns:
        for part in build_example(pattern).parts:
            if isinstance(part, SqlOperation) and not _may(
                owner, get_role_name(system, component.name), part
            ):
                found.append((component.name, pattern.id))
    return found


def _may(owner: psycopg.Connection[Any], role: str, operation: SqlOperation[Any]) -> bool:
    try:
        with owner.transaction(force_rollback=True):
            owner.execute(f"SET LOCAL ROLE {role}".encode())
            owner.execute(operation.text.encode(), operation.parameters)
    except InsufficientPrivilege:
        return False
    except psycopg.errors.IntegrityError:
        pass
    return True
