"""The documentation site builds without a warning, works offline, and documents every public name."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

from tests.docs import pages, site
from tests.repo.python_lists import list_names, list_public_modules

# The first test builds the site: in half a minute, or in many of a busy machine.
pytestmark = pytest.mark.timeout(1_600)

# Not public, and still of use to those who write an engine, embed the server or test with the fixture.
OTHER_MODULES = ("holdfast.pytest_plugin", "holdfast.stores", "holdfast.wire")
LOADED_BY_STYLE = re.compile(r"(?:url\(|@import\s+)['\"]?([^'\")]+)")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; fail if the build has something to say."""
    folder, done = site.build(tmp_path_factory.mktemp("docs"))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


@pytest.fixture(scope="module")
def read(built: Path) -> dict[Path, site.Page]:
    return site.read_pages(built)


def test_every_page_is_in_the_navigation(built: Path, read: dict[Path, site.Page]) -> None:
    start = read[built / "docs" / "index.html"]
    shown = {(start.path.parent / link).resolve().relative_to(built) for link in start.navigation}

    sources = [*pages.ROOT.glob("*.md"), *pages.ROOT.glob("examples/*.md"), *pages.DOCS.rglob("*.md")]
    wanted = {page.relative_to(pages.ROOT).with_suffix(".html") for page in sources}
    assert shown == wanted - {Path("README.html"), Path("docs/index.html")}


def test_every_link_of_the_site_has_a_target(read: dict[Path, site.Page]) -> None:
    broken = [
        f"{page.path.name}: {target.name}#{anchor}"
        for page in read.values()
        for target, anchor in site.resolve_links(page)
        if not target.exists() or (anchor and target in read and anchor not in read[target].ids)
    ]
    assert broken == []


def test_no_page_loads_anything_from_elsewhere(built: Path, read: dict[Path, site.Page]) -> None:
    loaded = {each for page in read.values() for each in page.loaded}
    for sheet in built.rglob("*.css"):
        loaded |= set(LOADED_BY_STYLE.findall(sheet.read_text(encoding="utf-8")))

    assert loaded
    assert [each for each in loaded if re.match(r"(https?:)?//", each)] == []


def test_the_search_finds_a_word_of_a_guide(built: Path) -> None:
    script = (built / "searchindex.js").read_text(encoding="utf-8")
    index = json.loads(script.removeprefix("Search.setIndex(").removesuffix(")"))

    # A word in a heading is kept apart from the text.
    numbers = [*index["terms"]["webhook"], *index["titleterms"]["webhook"]]
    found = {index["docnames"][number] for number in numbers}
    assert "webhook" in (pages.DOCS / "guides" / "hosts.md").read_text(encoding="utf-8")
    assert "docs/guides/hosts" in found


def test_the_first_file_leads_to_the_start_page(built: Path) -> None:
    assert 'url=docs/index.html"' in (built / "index.html").read_text(encoding="utf-8")


# --- the reference of the Python API ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inventory(built: Path) -> dict[str, set[str]]:
    """Return the full names that the site documents, by kind: `py:module`, `py:class` and so on."""
    loaded = InventoryFile.loads((built / "objects.inv").read_bytes(), uri="")
    return {kind: set(names) for kind, names in loaded.data.items()}


def test_the_reference_has_every_public_module(inventory: dict[str, set[str]]) -> None:
    assert {*list_public_modules(), *OTHER_MODULES} - inventory["py:module"] == set()


def test_the_reference_has_every_public_name(inventory: dict[str, set[str]]) -> None:
    kinds = ("py:class", "py:exception", "py:function", "py:data")
    full_names = {name for kind in kinds for name in inventory[kind]}
    # A name that two modules export is documented in one of them.
    documented = {
        (name, id(found))
        for module in inventory["py:module"]
        for name, found in get_public_objects(module).items()
        if f"{module}.{name}" in full_names
    }
    missing = [
        f"{module}.{name}"
        for module in sorted(inventory["py:module"])
        for name, found in get_public_objects(module).items()
        if (name, id(found)) not in documented
    ]
    assert missing == []


def test_every_public_class_function_and_listed_constant_has_a_docstring(
    inventory: dict[str, set[str]],
) -> None:
    undocumented = [
        f"{module}.{name}"
        for module in sorted(inventory["py:module"])
        for name, found in get_public_objects(module).items()
        if hasattr(import_module(module), "__all__") or inspect.isclass(found) or inspect.isroutine(found)
        if not has_docstring(name, found)
    ]
    assert undocumented == []


def get_public_objects(module_name: str) -> dict[str, object]:
    """Return the public names of a module with their values."""
    module = import_module(module_name)
    return {name: getattr(module, name) for name in list_names(module)}


def has_docstring(name: str, found: object) -> bool:
    """Return True if a class, a function or a constant has a docstring of its own."""
    if inspect.isclass(found):
        # A dataclass without a docstring gets its signature as one.
        return not str(vars(found).get("__doc__")).startswith((f"{name}(", "None"))
    if inspect.isroutine(found):
        return bool(found.__doc__)
    return any(
        name in list_documented_constants(module)
        for module in list(sys.modules)
        if module.startswith("holdfast.") and vars(sys.modules[module]).get(name) is found
    )


@cache
def list_documented_constants(module: str) -> frozenset[str]:
    """Return the names that a module assigns with a docstring below."""
    body = ast.parse(inspect.getsource(sys.modules[module])).body
    return frozenset(
        target.id
        for statement, below in pairwise(body)
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        if isinstance(target, ast.Name)
    )
