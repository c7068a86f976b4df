"""The stability page: pages and systems import only what it calls public, and its promises are checked."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from holdfast.stores.queues.embedded.storage.schema import SCHEMA as QUEUES_SCHEMA
from holdfast.stores.sqlite import Schema
from holdfast.stores.tables.embedded.storage.schema import SCHEMA as TABLES_SCHEMA
from tests.corpus.archive import SUFFIX, list_release_folders, read_schema_version
from tests.docs import pages
from tests.repo.python_lists import PAGE, list_names, list_public_modules
from tests.repo.surface import GOLDEN, LISTS
from tests.repo.test_dependencies import PROJECT
from tools.release.changelog import parse_changelog

PUBLIC = list_public_modules()
TEXT = PAGE.read_text(encoding="utf-8")
SYSTEMS = sorted(path for folder in ("systems", "demo") for path in (pages.ROOT / folder).rglob("*.py"))


def _find_imports(source: str) -> Iterator[tuple[str, str]]:
    """Yield each module of Holdfast that the source imports, with the name that it imports from it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=str(module), names=names) if re.match(r"holdfast(\.|$)", module):
                yield from ((module, each.name) for each in names)
            case ast.Import(names=names):
                yield from ((each.name, "") for each in names if re.match(r"holdfast(\.|$)", each.name))


def _is_public(module: str, name: str) -> bool:
    if module not in PUBLIC:
        return False
    return not name or name in list_names(import_module(module)) or find_spec(f"{module}.{name}") is not None


def test_pages_import_only_public_names() -> None:
    imported = {
        (pages.format_path(page), *each)
        for page in pages.list_pages()
        for block in pages.parse_blocks(page)
        if block.language == "python"
        for each in _find_imports(block.text)
    }

    assert imported
    assert {each for each in imported if not _is_public(*each[1:])} == set()


def test_systems_and_demo_import_only_public_names() -> None:
    imported = {each for path in SYSTEMS for each in _find_imports(path.read_text(encoding="utf-8"))}

    assert imported
    assert {each for each in imported if not _is_public(*each)} == set()


def test_every_public_module_exists_and_has_names() -> None:
    assert [module for module in PUBLIC if not list_names(import_module(module))] == []


def test_every_list_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`golden/(\w+)\.json`", TEXT))

    assert named <= LISTS.keys()
    assert {path.stem for path in GOLDEN.glob("*.json")} >= named
    assert "python_names" in named


def test_the_page_names_the_python_versions_of_the_metadata() -> None:
    classifiers = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    sentence = re.search(r"Supported are CPython ([^;:]+?)\. A version", TEXT)

    assert sentence
    assert re.findall(r"3\.\d+", sentence[1]) == classifiers
    assert PROJECT["project"]["requires-python"] == f">={classifiers[0]}"


def test_every_released_version_has_a_corpus() -> None:
    changelog = parse_changelog((pages.ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    minors = {tuple(release.version.split(".")[:2]) for release in changelog.releases}

    folders = {path.name for path in list_release_folders()}
    assert {f"v{'_'.join(minor)}" for minor in minors} <= folders


@pytest.mark.parametrize(("file", "schema"), [("tables.db", TABLES_SCHEMA), ("queues.db", QUEUES_SCHEMA)])
def test_every_earlier_schema_version_of_a_file_has_an_archive(file: str, schema: Schema) -> None:
    """The newest version gets its archive with the release that brings it."""
    archives = [path for folder in list_release_folders() for path in folder.glob(f"*{SUFFIX}")]

    found = {read_schema_version(path, file) for path in archives}
    missing = set(range(1, schema.version)) - found
    assert not missing, f"No archive in tests/corpus has a {file} of schema {missing}."


@pytest.mark.parametrize("release", list_release_folders(), ids=lambda path: str(path.name))
def test_the_corpus_of_a_released_version_is_unchanged(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text(encoding="ascii").splitlines()
    sums = {name: found for found, _, name in (line.partition("  ") for line in lines)}
    files = [path for path in release.iterdir() if path.name != "SHA256SUMS"]

    assert {path.name: sha256(path.read_bytes()).hexdigest() for path in files} == sums
