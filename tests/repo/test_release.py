"""The files of a release: two builds are equal to the byte, complete, and refused for an unfit source."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.spdx import is_expression
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

import holdfast
from tests.repo.test_dependencies import PROJECT, read_pins
from tests.repo.versioned_files import list_versioned_files
from tools.release.build import ReleaseRefused, build_release
from tools.release.changelog import parse_changelog
from tools.release.sbom import Package, build_sbom, find_needs, read_lock, read_metadata, read_wheels

ROOT = Path(__file__).parents[2]
PACKAGE_ROOTS = ("src", "systems", "demo")
PACKAGED = re.compile(r".*\.(py|json|csv|sql|txt|html|js|css|svg|safetensors)|.*/py\.typed")
GIT = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]


# --- one release, built twice -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of two builds that run at the same time, each in its own surroundings."""
    folder = tmp_path_factory.mktemp("builds")
    checkout, copy = folder / "checkout", folder / "a longer path" / "without git"
    _copy_project(checkout)
    _commit(checkout, "2001-02-03T04:05:06Z")
    _copy_project(copy)
    _leave_traces(copy)
    autocrlf = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.autocrlf", "GIT_CONFIG_VALUE_0": "true"}
    settings = {"TZ": "America/Los_Angeles", "LC_ALL": "C.UTF-8", **autocrlf}
    others = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1", "PYTHONHASHSEED": "7"}
    with ThreadPoolExecutor() as pool:
        first = pool.submit(_build, checkout, settings, umask=0o022)
        second = pool.submit(_build, copy, others, umask=0o077)
        return first.result(), second.result()


@pytest.fixture(scope="module")
def first(builds: tuple[Path, Path]) -> Path:
    """The files built in a git checkout whose commit is of 2001."""
    return builds[0]


@pytest.fixture(scope="module")
def second(builds: tuple[Path, Path]) -> Path:
    """The files built outside git, in another folder, by a user with other settings."""
    return builds[1]


@pytest.fixture(scope="module")
def wheels(first: Path) -> list[Path]:
    """The wheels of the first build."""
    return sorted(first.glob("*.whl"))


@pytest.fixture(scope="module")
def sbom(first: Path) -> dict[str, Any]:
    """The software bill of materials of the first build."""
    (file,) = first.glob("*.cdx.json")
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


def _copy_project(folder: Path) -> None:
    """Copy the versioned files, without most tests; empty "Unreleased" in the changelog."""
    for name in list_versioned_files():
        if name.startswith(("tests/", "benchmarks/")) and not name.startswith("tests/repo/"):
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    changelog = folder / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^(## Unreleased\n).*?(?=^## \d)", r"\1\n", text)
    changelog.write_text(text, encoding="utf-8")


def _commit(folder: Path, moment: str) -> None:
    """Make the folder a git checkout with one commit of that moment."""
    environment = os.environ | {"GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment}
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "Release"]):
        subprocess.run([*GIT, *command], cwd=folder, env=environment, check=True)


def _leave_traces(folder: Path) -> None:
    """Change the modes of files, and leave the remains of an earlier build."""
    for path in folder.rglob("*"):
        path.chmod(0o700)
    stale = folder / "build" / "lib" / "holdfast" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.touch()


def _build(project: Path, variables: dict[str, str], umask: int) -> Path:
    """Run the program of `make release` and return its output folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-m", "tools.release.build"],
        cwd=project,
        env=environment | variables,
        umask=umask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return project / "dist"


def _read_files(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_two_builds_in_different_surroundings_are_equal_to_the_byte(first: Path, second: Path) -> None:
    assert _read_files(first) == _read_files(second)


def test_every_project_has_a_wheel_of_the_same_version(wheels: list[Path]) -> None:
    projects = [path for root in ("", "systems/*/", "demo/") for path in ROOT.glob(f"{root}pyproject.toml")]

    assert len(wheels) == len(projects)
    assert {read_metadata(wheel)["Version"] for wheel in wheels} == {holdfast.__version__}


def test_sha256sum_accepts_the_checksums_of_all_files(first: Path) -> None:
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"],
        cwd=first,
        capture_output=True,
        text=True,
        check=True,
    )

    assert {line.removesuffix(": OK") for line in done.stdout.splitlines()} == _read_files(first).keys() - {
        "SHA256SUMS"
    }


# --- wheels -------------------------------------------------------------------------------------------------


def test_every_wheel_has_the_licence(wheels: list[Path]) -> None:
    text = (ROOT / "LICENSE").read_bytes()
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            licences = [name for name in archive.namelist() if ".dist-info/licenses/" in name]
            assert [archive.read(name) for name in licences] == [text], wheel.name


def test_every_wheel_has_exactly_the_versioned_files_of_its_package(wheels: list[Path]) -> None:
    """That is every module, `py.typed` and data file, and no test, bytecode or README."""
    versioned = list_versioned_files()
    for wheel in wheels:
        packaged = _list_packaged_files(wheel)
        folders = {f"{root}/{name.partition('/')[0]}/" for name in packaged for root in PACKAGE_ROOTS}
        expected = {
            name.partition("/")[2]
            for name in versioned
            if PACKAGED.fullmatch(name) and name.startswith(tuple(folders))
        }
        assert packaged == expected, wheel.name
        assert any(name.endswith("/py.typed") for name in packaged), wheel.name
        assert not [name for name in packaged if name.endswith(".py") and "tests" in name.split("/")], (
            wheel.name
        )


def test_the_wheel_of_the_library_contains_holdfast_alone(wheels: list[Path]) -> None:
    (library,) = [wheel for wheel in wheels if read_metadata(wheel)["Name"] == PROJECT["project"]["name"]]

    assert {name.partition("/")[0] for name in _list_packaged_files(library)} == {"holdfast"}


def test_the_wheels_share_no_file(wheels: list[Path]) -> None:
    names = [name for wheel in wheels for name in _list_packaged_files(wheel)]

    assert len(names) == len(set(names))


def test_command_module_and_metadata_have_the_same_version(wheels: list[Path], tmp_path: Path) -> None:
    (library,) = [wheel for wheel in wheels if read_metadata(wheel)["Name"] == PROJECT["project"]["name"]]
    zipfile.ZipFile(library).extractall(tmp_path)
    script = (
        "import importlib.metadata, holdfast\n"
        f"print(holdfast.__file__, importlib.metadata.version({PROJECT['project']['name']!r}))"
    )

    assert _run_python(tmp_path, "-m", "holdfast", "--version") == f"holdfast {holdfast.__version__}\n"
    module = tmp_path / "holdfast" / "__init__.py"
    assert _run_python(tmp_path, "-c", script) == f"{module} {holdfast.__version__}\n"


def _run_python(folder: Path, *arguments: str) -> str:
    """Run Python with the packages of a folder before all others, and return its output."""
    environment = os.environ | {"PYTHONPATH": str(folder)}
    done = subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def _list_packaged_files(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


# --- the software bill of materials -------------------------------------------------------------------------


def test_the_sbom_follows_the_schema_of_cyclonedx(sbom: dict[str, Any]) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)

    assert validator.validate_str(json.dumps(sbom)) is None
    assert validator.validate_str(json.dumps(sbom | {"specVersion": 1})) is not None


def test_the_sbom_lists_the_wheels_and_every_locked_package(sbom: dict[str, Any], wheels: list[Path]) -> None:
    listed = {each["name"]: each["version"] for each in sbom["components"]}
    build = {requirement.partition(">")[0] for requirement in PROJECT["dependency-groups"]["build"]}
    locked = {name: version for name, version in read_pins("runtime").items() if name not in build}

    assert listed == locked | {package.name: holdfast.__version__ for package in read_wheels(wheels)}


def test_every_component_of_the_sbom_has_hashes_and_a_licence(sbom: dict[str, Any]) -> None:
    for each in sbom["components"]:
        assert each["hashes"], each["name"]
        (licence,) = each["licenses"]
        assert "license" in licence or is_expression(licence["expression"]), each["name"]


def test_the_sbom_has_the_hash_of_each_wheel(sbom: dict[str, Any], wheels: list[Path]) -> None:
    hashes = {each["name"]: [entry["content"] for entry in each["hashes"]] for each in sbom["components"]}

    for wheel in wheels:
        assert hashes[read_metadata(wheel)["Name"]] == [sha256(wheel.read_bytes()).hexdigest()]


def test_the_dependencies_of_the_sbom_name_its_components(sbom: dict[str, Any]) -> None:
    components = [each["bom-ref"] for each in sbom["components"]]
    needs = {each["ref"]: each["dependsOn"] for each in sbom["dependencies"]}

    assert needs.keys() == {"release", *components}
    assert {name for names in needs.values() for name in names} == set(components)


def test_sbom_follows_the_requirements_of_packages_and_extras() -> None:
    lock = (
        f"base==1.0 \\\n    --hash=sha256:{'a' * 64}\n    # via holdfast-state (pyproject.toml)\n"
        f"deep==2.0 \\\n    --hash=sha256:{'b' * 64}\n    # via base\n"
        f"more==3.0 \\\n    --hash=sha256:{'c' * 64}\n    # via\n    #   -c locks/dev.txt\n    #   demo (x)\n"
        f"unused==4.0 \\\n    --hash=sha256:{'d' * 64}\n"
    )
    own = Package("holdfast-state", "1.0", ("e" * 64,), "MIT", {"base"}, {"more"})

    document = json.loads(build_sbom(date(2026, 1, 2), [own], read_lock(lock, {"more": "MIT or 0BSD"})))

    scopes = {each["name"]: each["scope"] for each in document["components"]}
    assert scopes == {
        "base": "required",
        "deep": "required",
        "holdfast-state": "required",
        "more": "optional",
    }
    assert document["components"][3]["licenses"] == [{"expression": "MIT OR 0BSD"}]
    assert {"ref": "pkg:pypi/base@1.0", "dependsOn": ["pkg:pypi/deep@2.0"]} in document["dependencies"]
    assert document["metadata"]["timestamp"] == "2026-01-02T00:00:00Z"


def test_needs_include_the_extras_that_one_distribution_asks_of_another() -> None:
    texts = {
        "library": ["base", "web>=1; extra == 'api'", "more; extra == 'api' and sys_platform == 'win32'"],
        "system": ["library[api]==1", "old; python_version < '3'", "demo; extra == 'demo'"],
        "demo": ["library==1"],
    }
    requirements = {name: [Requirement(line) for line in lines] for name, lines in texts.items()}

    assert find_needs(requirements, "library", ()) == {"base"}
    assert find_needs(requirements, "library", ["api"]) == {"base", "web"}
    assert find_needs(requirements, "system", ()) == {"library", "web"}
    assert find_needs(requirements, "system", ["demo"]) == {"library", "web", "demo"}


def test_sbom_refuses_a_requirement_without_a_pin() -> None:
    own = Package("holdfast-state", "1.0", ("e" * 64,), "MIT", {"absent"})

    with pytest.raises(ValueError, match="holdfast-state needs absent, which the lock does not pin"):
        build_sbom(date(2026, 1, 2), [own], [])


# --- refusals -----------------------------------------------------------------------------------------------

CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.2.3 - 2026-01-31\n\n- Everything.\n"
PYPROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "holdfast-state"
version = "1.2.3"
license = "MIT"
[tool.setuptools.packages.find]
where = ["src"]
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one module that can be released."""
    texts = {
        "pyproject.toml": PYPROJECT,
        "CHANGELOG.md": CHANGELOG,
        "src/holdfast/__init__.py": '__version__ = "1.2.3"\n',
        "locks/runtime.txt": "",
        "docs/internals/dependencies.md": "",
    }
    for name, text in texts.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "project"


def test_builds_a_small_project(project: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "old.whl").touch()

    files = build_release(project, tmp_path / "out")

    assert [path.name for path in files] == [
        "SHA256SUMS",
        "holdfast-1.2.3.cdx.json",
        "holdfast_state-1.2.3-py3-none-any.whl",
    ]
    assert read_metadata(files[2])["Version"] == "1.2.3"


def test_refuses_a_tree_with_uncommitted_changes(project: Path, tmp_path: Path) -> None:
    _commit(project, "2026-02-01T00:00:00Z")
    (project / "src" / "holdfast" / "more.py").touch()

    with pytest.raises(ReleaseRefused, match=r"(?s)not committed\. Commit or remove them.*more\.py"):
        build_release(project, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changelog", "sentence"),
    [
        ("## Unreleased\n\n## 1.2.2 - 2026-01-31\n", r"CHANGELOG\.md has no version 1\.2\.3 with a date"),
        (CHANGELOG.replace("## 1.2.3", "- New.\n\n## 1.2.3"), "has entries under 'Unreleased'"),
    ],
)
def test_refuses_a_version_that_the_changelog_does_not_release(
    project: Path, tmp_path: Path, changelog: str, sentence: str
) -> None:
    (project / "CHANGELOG.md").write_text(changelog, encoding="utf-8")

    with pytest.raises(ReleaseRefused, match=sentence):
        build_release(project, tmp_path / "out")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["a", "b", "c"], None),
        (["a", "c"], r"removes or changes 1 lines of .*names\.json\. Release it as 1\.3\.0\. First line: b"),
        (None, "removes or changes 2 lines"),
    ],
)
def test_refuses_a_patch_version_that_removes_a_public_line(
    project: Path, tmp_path: Path, lines: list[str] | None, sentence: str | None
) -> None:
    golden = project / "tests" / "repo" / "golden" / "names.json"
    golden.parent.mkdir(parents=True)
    golden.write_text(json.dumps(["a", "b"]), encoding="utf-8")
    _commit(project, "2026-01-01T00:00:00Z")
    subprocess.run([*GIT, "tag", "v1.2.2"], cwd=project, check=True)
    if lines is None:
        golden.unlink()
    else:
        golden.write_text(json.dumps(lines), encoding="utf-8")
    _commit(project, "2026-02-01T00:00:00Z")

    if sentence is None:
        assert build_release(project, tmp_path / "out")
    else:
        with pytest.raises(ReleaseRefused, match=sentence):
            build_release(project, tmp_path / "out")


def test_refuses_a_patch_version_without_the_tag_of_the_version_before(project: Path, tmp_path: Path) -> None:
    _commit(project, "2026-02-01T00:00:00Z")

    with pytest.raises(ReleaseRefused, match=r"The tag v1\.2\.2 is missing"):
        build_release(project, tmp_path / "out")


def test_refuses_a_project_of_another_version(project: Path, tmp_path: Path) -> None:
    (project / "pyproject.toml").write_text(PYPROJECT.replace('"1.2.3"', '"1.2.4"'), encoding="utf-8")

    with pytest.raises(
        ReleaseRefused, match=r"holdfast-state has the version 1\.2\.4, and the release is 1\.2\.3"
    ):
        build_release(project, tmp_path / "out")


def test_refuses_a_project_that_setuptools_cannot_build(project: Path, tmp_path: Path) -> None:
    (project / "pyproject.toml").write_text("[project]\nname = 1\n", encoding="utf-8")

    with pytest.raises(ReleaseRefused, match=r"setuptools cannot build pyproject\.toml"):
        build_release(project, tmp_path / "out")


@pytest.mark.parametrize("heading", ["1.2.3", "1.2.3 (2026-01-31)", "1.2.3 - 31.01.2026", "Next"])
def test_rejects_a_heading_of_the_changelog_without_version_and_date(heading: str) -> None:
    with pytest.raises(ValueError, match="Invalid heading"):
        parse_changelog(f"## {heading}\n")
