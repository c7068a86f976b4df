"""Install the harbour as a system with an entry point, for processes that the tests start."""

from __future__ import annotations

import os
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from holdfast.cli import main
from holdfast.core import installed_systems

ROOT = Path(__file__).parents[3]

HARBOUR = "tests.unit.mcp.harbour:SYSTEM"


def install_system(folder: Path, name: str = "harbour", value: str = HARBOUR) -> dict[str, str]:
    """Return an environment in which only this system is found by its entry point, and none of the
    repository's.
    """
    place = folder / "installed"
    _write_dist_info(place, name, f"[holdfast.systems]\n{name} = {value}\n")
    # The first distribution of a name on the path wins: these hide the repository's systems and demos.
    for project in (ROOT / "demo", *(each.parent for each in ROOT.glob("systems/*/pyproject.toml"))):
        _write_dist_info(place, f"holdfast_{project.name}", "")
    paths = (str(place), str(ROOT), os.environ.get("PYTHONPATH"))
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def install_in_process(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    """Let this process find only these systems, each by the value of its entry point."""
    group = installed_systems.ENTRY_POINT_GROUP
    points = {name: EntryPoint(name, value, group) for name, value in values.items()}
    monkeypatch.setattr(
        installed_systems, "find_entry_points", lambda other=group: points if other == group else {}
    )


def run_in_process(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the command line in this process. Return its exit code, its output and its errors."""
    with pytest.raises(SystemExit) as exited:
        main(list(words))
    printed = capsys.readouterr()
    return int(exited.value.code or 0), printed.out, printed.err


def _write_dist_info(place: Path, name: str, entry_points: str) -> None:
    """Write the metadata of an installed distribution with these entry points."""
    record = place / f"{name}-1.dist-info"
    record.mkdir(parents=True, exist_ok=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (record / "entry_points.txt").write_text(entry_points, encoding="utf-8")
