"""Tests of importing artefacts from another deployment, on stores in memory."""

from __future__ import annotations

from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.artefact_import import import_artefact
from holdfast.core.errors import Conflict, InvalidRequest, NotFound
from tests.systems.agenticpm.unit.workers.loop_harness import Harness

ITEM: dict[str, Any] = {"type": "raid_log", "content": {"items": []}, "version": 4}


@pytest.mark.proves("AP-X3")
@pytest.mark.parametrize("name", ["previousVersion", "previous_version"])
async def test_reads_both_names_of_the_previous_version_and_stores_one(harness: Harness, name: str) -> None:
    project = await harness.create_project()
    await import_artefact(harness.stores, project.id, ITEM | {name: {"items": []}})
    found = await harness.artefact(project, ArtefactType.raid_log)
    assert (found.version, found.previous_version) == (4, {"items": []})
    assert "previousVersion" in found.to_item() and "previous_version" not in found.to_item()


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "minutes"},
        {"content": {"items": 5}},
        {"content": "x"},
        {"version": 0},
        {"previousVersion": {"decisions": []}},
        {"previousVersion": {"items": []}, "previous_version": {"items": [1]}},
    ],
)
async def test_rejects_an_invalid_artefact_and_stores_nothing(
    harness: Harness, broken: dict[str, Any]
) -> None:
    project = await harness.create_project()
    with pytest.raises(InvalidRequest, match="Invalid artefact"):
        await import_artefact(harness.stores, project.id, ITEM | broken)
    assert await harness.stores.run(patterns.artefact(project.id, ArtefactType.raid_log)) is None


async def test_does_not_overwrite_an_artefact_and_needs_an_existing_project(harness: Harness) -> None:
    project = await harness.create_project()
    await import_artefact(harness.stores, project.id, ITEM)
    with pytest.raises(Conflict, match="already"):
        await import_artefact(harness.stores, project.id, ITEM)
    with pytest.raises(NotFound):
        await import_artefact(harness.stores, "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11", ITEM)
