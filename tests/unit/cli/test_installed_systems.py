"""Loading every installed system: those that load, and the reason of each that does not."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from holdfast.cli.arguments.system_names import load_installed
from holdfast.core import installed_systems

GROUP = installed_systems.ENTRY_POINT_GROUP


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    points = {
        "pagw": EntryPoint("pagw", "pagw.system:SYSTEM", GROUP),
        "gone": EntryPoint("gone", "no_such_package:SYSTEM", GROUP),
        "misnamed": EntryPoint("misnamed", "richpanel.system:SYSTEM", GROUP),
    }
    monkeypatch.setattr(installed_systems, "find_entry_points", lambda group=GROUP: points)


@pytest.mark.usefixtures("entry_points")
def test_a_system_that_does_not_load_has_its_reason_and_stops_no_other() -> None:
    found, broken = load_installed()
    assert [each.name for each in found] == ["pagw"]
    assert "no_such_package" in broken["gone"]
    assert "give both the same name" in broken["misnamed"]


@pytest.mark.usefixtures("entry_points")
def test_a_system_without_its_extras_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.cli.extras._is_missing", lambda module: module == "psycopg")
    found, broken = load_installed(lambda system: ("sql",))
    assert found == []
    assert "needs psycopg, which is not installed" in broken["pagw"]
