"""What we depend on: pinned with hashes, under licences that let anyone ship it, each with its reason."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = {name: ROOT / "locks" / f"{name}.txt" for name in ("runtime", "dev")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

PINNED = re.compile(r"([a-z0-9][a-z0-9-]*)==([0-9][0-9A-Za-z.+!]*) \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
VIA = re.compile(r" *#.*")

PERMISSIVE = re.compile(r"\b(MIT|MIT-0|BSD|Apache|ISC|PSF|0BSD|Zlib|Unlicense|any-OSI)\b", re.IGNORECASE)
# Weak copyleft, in tools that check the code and are no part of what we ship: see docs/dependencies.md.
MOZILLA_TOOLS = {"certifi", "hypothesis", "pathspec"}
# The driver of PostgreSQL, used as a library: the page says why.
LESSER_DRIVER = {"psycopg", "psycopg-binary", "psycopg-pool"}


def pins(lock: str) -> dict[str, str]:
    return dict(PINNED.findall(LOCKS[lock].read_text(encoding="utf-8")))


def direct(lock: str) -> set[str]:
    """The packages pyproject.toml itself asks for."""
    wanted = PROJECT["project"]["dependencies"] + PROJECT["dependency-groups"]["build"]
    wanted = wanted + [
        name for extra in PROJECT["project"]["optional-dependencies"].values() for name in extra
    ]
    if lock == "dev":
        wanted = wanted + PROJECT["dependency-groups"]["dev"]
    return {re.split(r"[^A-Za-z0-9_.-]", requirement)[0].lower() for requirement in wanted}


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_holds_names_versions_and_hashes_and_nothing_else(lock: str) -> None:
    for number, line in enumerate(LOCKS[lock].read_text(encoding="utf-8").splitlines(), start=1):
        understood = PINNED.fullmatch(line) or HASH.fullmatch(line) or VIA.fullmatch(line)
        assert understood, f"locks/{lock}.txt:{number}: {line}"
        assert "://" not in line


@pytest.mark.parametrize("lock", LOCKS)
def test_the_lock_pins_everything_pyproject_asks_for(lock: str) -> None:
    assert direct(lock) <= pins(lock).keys()


def test_the_tools_are_locked_with_the_very_versions_that_are_shipped() -> None:
    assert pins("runtime").items() <= pins("dev").items()


@pytest.mark.parametrize("name", sorted(pins("dev")))
def test_the_licence_lets_anyone_ship_it(name: str) -> None:
    if name in MOZILLA_TOOLS:
        assert name not in pins("runtime")
        assert "MPL" in _licence_of(name)
    elif name in LESSER_DRIVER:
        assert "LGPL" in _licence_of(name)
    else:
        assert PERMISSIVE.search(_licence_of(name)), _licence_of(name)


def test_every_package_we_ship_with_is_in_the_page_of_dependencies_with_a_reason() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    reasons = dict(re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]+) \|$", page, re.M))

    assert set(reasons) == pins("runtime").keys() | direct("dev")
    assert all(len(reason.split()) > 2 for reason in reasons.values())


def _licence_of(name: str) -> str:
    try:
        found = metadata(name)
    except PackageNotFoundError:
        pytest.fail(f"{name} is locked and not installed: make setup-dev")
    fields = [*found.get_all("License-Expression", []), *found.get_all("License", [])]
    classifiers = [line for line in found.get_all("Classifier", []) if line.startswith("License ::")]
    return " ".join([field[:200] for field in fields] + classifiers)
