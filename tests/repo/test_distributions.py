"""The distributions of the workspace, built and installed into empty environments without a network."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import holdfast
from tests.docs import pages
from tools.release.build import BUILD_WHEEL

ROOT = Path(__file__).parents[2]
SYSTEMS = sorted(path.parent.name for path in ROOT.glob("systems/*/pyproject.toml"))
PROJECTS = [ROOT, ROOT / "demo", *(ROOT / "systems" / name for name in SYSTEMS)]


def read_project(folder: Path) -> dict[str, object]:
    """Return the table `project` of a folder's pyproject.toml."""
    project: dict[str, object] = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    return project


# --- metadata -----------------------------------------------------------------------------------------------


def test_projects_have_one_version_and_require_each_other_in_it() -> None:
    for folder in PROJECTS[1:]:
        project = read_project(folder)
        listed = re.findall(r"'(holdfast-[^']+)'", str(project))
        required = [Requirement(each) for each in listed if each != project["name"]]

        assert project["version"] == holdfast.__version__
        assert required, folder
        assert {str(each.specifier) for each in required} == {f"=={holdfast.__version__}"}


def test_no_project_requires_the_unrelated_project_of_that_name() -> None:
    template = ROOT / "src/holdfast/cli/templates/system/pyproject.toml.txt"
    for file in (*(folder / "pyproject.toml" for folder in PROJECTS), template):
        text = file.read_text(encoding="utf-8")

        assert '"holdfast"' not in [line.strip().rstrip(",") for line in text.splitlines()], file


def test_demo_requires_no_system() -> None:
    required = {Requirement(each).name for each in read_project(ROOT / "demo")["dependencies"]}  # type: ignore[attr-defined]

    assert not required & {f"holdfast-{name}" for name in SYSTEMS}


@pytest.mark.parametrize("name", SYSTEMS)
def test_system_names_the_extras_it_needs_in_its_requirements(name: str) -> None:
    from holdfast.cli.extras import get_scratch_extras
    from holdfast.model.system import load_system

    (library,) = (
        requirement
        for requirement in map(Requirement, read_project(ROOT / "systems" / name)["dependencies"])  # type: ignore[call-overload]
        if requirement.name == "holdfast-state"
    )
    system = load_system(name)

    assert library.extras >= {*get_scratch_extras(system), *system.deployment.extras}


# --- wheels -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of every project from a copy of the source; return the folder with them."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheels")
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in ("src", "systems", "demo"):
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for project in PROJECTS:
        run([sys.executable, "-c", BUILD_WHEEL, built], source / project.relative_to(ROOT))
    return built


class Installation:
    """An environment that has the named distributions, and of other packages only what they require."""

    def __init__(self, folder: Path, wheels: Path, *wanted: str) -> None:
        self._bin = folder / "venv" / "bin"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        venv.create(folder / "venv", symlinks=True)
        (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
        for dependency in collect_dependencies(wheels, wanted):
            link_files(dependency, site)
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", self._bin / "python"]
        run([*pip, "install", "--quiet", "--no-index", "--find-links", wheels, *wanted], self.work)

    def run(self, *words: str | Path, code: int = 0) -> str:
        """Run `holdfast`, or Python with a script; return what it printed on both streams."""
        program = [self._bin / "holdfast"] if not isinstance(words[0], Path) else [self._bin / "python"]
        return run([*program, *words], self.work, code)


def collect_dependencies(wheels: Path, wanted: tuple[str, ...]) -> list[Distribution]:
    """Return the installed third-party distributions that these distributions require, as declared."""
    ours = {
        canonicalize_name(found.metadata["Name"]): found for found in map(read_wheel, wheels.glob("*.whl"))
    }
    waiting, seen, found = [Requirement(each) for each in wanted], set[tuple[str, frozenset[str]]](), {}
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        declared = ours.get(name) or distribution(name)
        if name not in ours:
            found[name] = declared
        for each in map(Requirement, declared.requires or ()):
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                waiting.append(each)
    return list(found.values())


def read_wheel(wheel: Path) -> Distribution:
    """Return the distribution in a wheel, with its metadata."""
    from zipfile import Path as ZipPath

    (folder,) = (each for each in ZipPath(wheel).iterdir() if each.name.endswith(".dist-info"))
    metadata = (folder / "METADATA").read_text(encoding="utf-8")

    class InWheel(Distribution):
        def read_text(self, filename: str) -> str | None:
            return metadata if filename == "METADATA" else None

        def locate_file(self, path: object) -> Path:
            return wheel

    return InWheel()


def link_files(found: Distribution, site: Path) -> None:
    """Make the packages and the metadata of an installed distribution available in another environment."""
    for name in {each.parts[0] for each in found.files or () if each.parts[0] not in {"..", "__pycache__"}}:
        origin, target = Path(str(found.locate_file(name))), site / name
        if not target.exists():
            target.symlink_to(origin)


def run(command: Sequence[str | Path], folder: Path, code: int = 0) -> str:
    """Run a command in a folder and return what it printed; fail unless it ends with this code."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def library(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    return Installation(tmp_path_factory.mktemp("library"), wheels, "holdfast-state")


def test_the_readme_example_runs_with_the_library_alone(library: Installation) -> None:
    (block,) = (each for each in pages.parse_blocks(ROOT / "README.md") if each.language == "python")
    script = library.work / "example.py"
    script.write_text(block.text, encoding="utf-8")

    assert library.run(script).strip()


def test_a_user_of_the_library_alone_sees_no_systems(library: Installation) -> None:
    assert library.run("--version") == f"holdfast {holdfast.__version__}\n"
    assert "No system is installed" in library.run("systems")
    for words in (["--help"], ["doctor"], ["tables"], ["queues", "list"]):
        printed = library.run(*words)
        assert not [name for name in SYSTEMS if name in printed], printed


def test_a_system_without_its_demo_says_how_to_install_it(
    wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    installed = Installation(tmp_path_factory.mktemp("system"), wheels, "holdfast-skymarshal")

    assert installed.run("demo", "skymarshal", code=1) == (
        "holdfast: skymarshal has no story: its demo is not installed. "
        "Run pip install 'holdfast-skymarshal[demo]'.\n"
    )
    assert "skymarshal" in installed.run("check", "skymarshal")
    printed = installed.run("systems")
    assert [name for name in SYSTEMS if name in printed] == ["skymarshal"]


def test_a_system_with_its_demo_runs_its_story_without_the_other_systems(
    wheels: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    installed = Installation(tmp_path_factory.mktemp("demo"), wheels, "holdfast-skymarshal[demo]")

    assert "The story used" in installed.run("demo", "skymarshal")
    printed = installed.run("systems")
    assert [name for name in SYSTEMS if name in printed] == ["skymarshal"]
