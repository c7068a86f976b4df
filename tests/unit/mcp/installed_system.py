"""Install the harbour as a system with an entry point, for processes that the tests start."""

from __future__ import annotations

import os
from pathlib import Path

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


def _write_dist_info(place: Path, name: str, entry_points: str) -> None:
    """Write the metadata of an installed distribution with these entry points."""
    record = place / f"{name}-1.dist-info"
    record.mkdir(parents=True, exist_ok=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n", encoding="utf-8")
    (record / "entry_points.txt").write_text(entry_points, encoding="utf-8")
