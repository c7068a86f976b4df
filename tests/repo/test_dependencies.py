"""The dependencies: pinned with hashes, under permissive licences, each with its reason on a page."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {name: ROOT / "locks" / f"{name}.txt" for name in ("runtime", "dev", "release")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

PINNED = re.compile(r"([a-z0-9][a-z0-9-]*)==([0-9][0-9A-Za-z.+!]*) \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
VIA = re.compile(r" *#.*")

PERMISSIVE = re.compile(r"\b(MIT|MIT-0|BSD|Apache|ISC|PSFL?|0BSD|Zlib|Unlicense|any-OSI)\b", re.IGNORECASE)
# Weak copyleft, in tools that check the code and are no part of what we ship: see
# docs/internals/dependencies.md.
MOZILLA_TOOLS = {"certifi", "hypothesis", "pathspec"}
# The driver of PostgreSQL, used as a library: the page says why.
LESSER_DRIVER = {"psycopg", "psycopg-binary", "psycopg-pool"}


def read_pins(lock: str) -> dict[str, str]:
    """Return the pinned version of each package in a lock file."""
    return dict(PINNED.findall(LOCKS[lock].read_text(encoding="utf-8")))


def read_direct_dependencies(lock: str) -> set[str]:
    """Return the packages that pyproject.toml names."""
    wanted = PROJECT["dependency-groups"]["build"]
    if lock != "release":
        wanted = wanted + PROJECT["project"]["dependencies"]
        wanted = wanted + [
            name for extra in PROJECT["project"]["optional-dependencies"].values() for name in extra
        ]
    if lock != "runtime":
        wanted = wanted + PROJECT["dependency-groups"][lock]
    return {re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in wanted}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_contains_only_names_versions_and_hashes(lock: str) -> None:
    for number, line in enumerate(LOCKS[lock].read_text(encoding="utf-8").splitlines(), start=1):
        understood = PINNED.fullmatch(line) or HASH.fullmatch(line) or VIA.fullmatch(line)
        assert understood, f"locks/{lock}.txt:{number}: {line}"
        assert "://" not in line


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_pins_every_dependency_of_pyproject(lock: str) -> None:
    assert read_direct_dependencies(lock) <= read_pins(lock).keys()


def test_the_dev_lock_pins_the_same_versions_as_the_runtime_lock() -> None:
    assert read_pins("runtime").items() <= read_pins("dev").items()


def test_the_release_lock_pins_the_same_versions_as_the_dev_lock() -> None:
    shared = read_pins("release").keys() & read_pins("dev").keys()

    assert {name: read_pins("release")[name] for name in shared} == {
        name: read_pins("dev")[name] for name in shared
    }


@pytest.mark.parametrize("name", sorted(read_pins("dev") | read_pins("release")))
def test_the_licence_is_permissive(name: str) -> None:
    """Exceptions are MPL for tools that are not shipped, and LGPL for the PostgreSQL driver."""
    if name in MOZILLA_TOOLS:
        assert name not in read_pins("runtime")
        assert "MPL" in _read_licence(name)
    elif name in LESSER_DRIVER:
        assert "LGPL" in _read_licence(name)
    else:
        assert PERMISSIVE.search(_read_licence(name)), _read_licence(name)


def test_dependencies_page_gives_a_reason_for_runtime_packages_and_direct_tools() -> None:
    page = (ROOT / "docs" / "internals" / "dependencies.md").read_text(encoding="utf-8")
    reasons = dict(re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]+) \|$", page, re.M))

    direct = read_direct_dependencies("dev") | read_direct_dependencies("release")
    assert set(reasons) == read_pins("runtime").keys() | direct
    assert all(len(reason.split()) > 2 for reason in reasons.values())


def _read_licence(name: str) -> str:
    """Return the licence in the metadata of an installed package; fail if it is not installed."""
    try:
        found = metadata(name)
    except PackageNotFoundError:
        pytest.fail(f"{name} is locked and not installed: make setup-dev")
    fields = [*found.get_all("License-Expression", []), *found.get_all("License", [])]
    classifiers = [line for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    return " ".join([field[:200] for field in fields] + classifiers)
