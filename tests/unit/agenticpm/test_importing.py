"""An artefact of another deployment is taken in as it was, under either name of the version before."""

from __future__ import annotations

from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.model import patterns
from agenticpm.model.artefact_import import import_artefact
from holdfast.core.errors import Conflict, InvalidRequest, NotFound
from tests.unit.agenticpm.loop_play import Play, played

ITEM: dict[str, Any] = {"type": "raid_log", "content": {"items": []}, "version": 4}


@pytest.mark.proves("AP-X3")
@pytest.mark.parametrize("name", ["previousVersion", "previous_version"])
def test_the_version_before_is_read_under_both_names_and_kept_under_one(name: str) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        await import_artefact(play.stores, project.id, ITEM | {name: {"items": []}})
        found = await play.stores.run(patterns.artefact(project.id, ArtefactType.raid_log))
        assert found is not None
        assert (found.version, found.previous_version) == (4, {"items": []})
        assert "previousVersion" in found.to_item() and "previous_version" not in found.to_item()

    played(story)


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
def test_what_breaks_its_schema_is_refused_and_nothing_is_kept(broken: dict[str, Any]) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        with pytest.raises(InvalidRequest, match="Invalid artefact"):
            await import_artefact(play.stores, project.id, ITEM | broken)
        assert await play.stores.run(patterns.artefact(project.id, ArtefactType.raid_log)) is None

    played(story)


def test_one_that_is_there_is_not_overwritten_and_a_project_must_be() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        await import_artefact(play.stores, project.id, ITEM)
        with pytest.raises(Conflict, match="already"):
            await import_artefact(play.stores, project.id, ITEM)
        with pytest.raises(NotFound):
            await import_artefact(play.stores, "6f1c7f5e-8b1c-4c3e-9a55-2f1a0f6d9a11", ITEM)

    played(story)
