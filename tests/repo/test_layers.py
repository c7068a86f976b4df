"""Imports point down only, as the contracts of pyproject.toml demand; checked by import-linter."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")


def test_every_import_contract_is_kept() -> None:
    done = _lint(ROOT / "pyproject.toml", ROOT)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_finds_an_import_that_points_up(tmp_path: Path) -> None:
    # The contracts are mostly patterns; this proves that such a contract can fail.
    _write(tmp_path / "app" / "low.py", "import app.high\n")
    _write(tmp_path / "app" / "high.py", "")
    _write(tmp_path / "app" / "__init__.py", "")
    _write(
        tmp_path / "contracts.toml",
        '[tool.importlinter]\nroot_package = "app"\n[[tool.importlinter.contracts]]\nname = "down"\n'
        'type = "layers"\ncontainers = ["app"]\nexhaustive = true\nlayers = ["(high)", "(middle)", '
        '"(low)"]\n',
    )

    done = _lint(tmp_path / "contracts.toml", tmp_path)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "app.low -> app.high" in done.stdout


def test_every_system_is_found_by_hosts_and_bound_by_the_contracts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    systems = {path.parent.name for path in (ROOT / "systems").glob("*/__init__.py")}
    linted = project["tool"]["importlinter"]

    for name in systems:
        own = tomllib.loads((ROOT / "systems" / name / "pyproject.toml").read_text(encoding="utf-8"))
        assert own["project"]["entry-points"]["holdfast.systems"] == {name: f"{name}.system:SYSTEM"}
    assert set(linted["root_packages"]) == systems | {"holdfast", "holdfast_demo"}
    for contract in linted["contracts"]:
        named = {
            name
            for key in ("source_modules", "forbidden_modules", "modules")
            for name in contract.get(key, [])
        }
        assert not named & systems or systems <= named, contract["name"]


def _lint(config: Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with this configuration in a directory."""
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--config", config],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
