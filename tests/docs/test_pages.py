"""Pages of the documentation: links have targets, the map has every package, decisions are numbered."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path

from tests.docs import pages

LIBRARY = pages.ROOT / "src" / "holdfast"
MAX_README_LINES = 80
MAX_PROGRAM_LINES = 16


def test_every_link_has_a_target() -> None:
    links = [
        (page, target) for page in pages.list_pages() for target in pages.LINK.findall(pages.read_prose(page))
    ]
    problems = [(pages.format_path(page), target, _find_problem(page, target)) for page, target in links]

    assert len(links) > 100
    assert [each for each in problems if each[2]] == []


def _find_problem(page: Path, target: str) -> str:
    """Return why the target of a link is wrong, or nothing."""
    if re.match(r"[a-z]+:", target):
        return ""
    path, _, anchor = target.partition("#")
    found = (page.parent / path).resolve() if path else page
    if path.startswith("/") or not found.exists():
        return "absolute path" if path.startswith("/") else "no such file"
    if anchor and found.suffix == ".md" and anchor not in pages.list_anchors(found):
        return "no heading with that anchor"
    return ""


def test_every_test_that_a_page_names_exists() -> None:
    missing = set()
    for page in pages.list_pages():
        text = page.read_text(encoding="utf-8")
        named = set(re.findall(r"`(?:[\w/.]*[/:])?(test_\w+)(?:\.py)?`", text))
        # A tutorial names the tests and the files that its reader writes.
        written = set(re.findall(r"(?:def |the file tests/)(test_\w+)", text))
        missing |= {(pages.format_path(page), name) for name in named - _list_test_names() - written}

    assert missing == set()


def test_the_readme_fits_on_a_screen_with_one_short_program() -> None:
    readme = pages.ROOT / "README.md"
    (program,) = (block.text for block in pages.parse_blocks(readme) if block.language == "python")

    assert len(readme.read_text(encoding="utf-8").splitlines()) <= MAX_README_LINES
    assert len(program.replace("\n\n", "\n").splitlines()) <= MAX_PROGRAM_LINES


def test_the_start_page_maps_every_package() -> None:
    mapped = [name for name, depth in _read_map() if depth == 1]
    there = {path.parent.name for path in LIBRARY.glob("*/*.py")}

    assert sorted(mapped) == sorted(there)


def test_the_start_page_maps_only_existing_subpackages() -> None:
    package = ""
    for name, depth in _read_map():
        if depth == 1:
            package = name
        else:
            assert list((LIBRARY / package).rglob(name)), f"{name} is not in {package}"


def test_the_glossary_explains_each_word_once_in_order() -> None:
    words = [
        row[0].casefold()
        for row in pages.parse_rows(pages.read_prose(pages.DOCS / "reference" / "glossary.md"))
    ]

    assert words
    assert words == sorted(set(words))


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (pages.DOCS / "internals" / "decisions").glob("*.md"))

    numbers = [re.match(r"(\d{4})-[a-z0-9-]+\.md$", name) for name in names]
    assert all(numbers), f"a decision is called NNNN-title.md: {names}"
    assert [int(number[1]) for number in numbers if number] == list(range(1, len(names) + 1))


def test_every_decision_is_titled_with_its_number() -> None:
    for path in (pages.DOCS / "internals" / "decisions").glob("*.md"):
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}"), path.name


@cache
def _list_test_names() -> frozenset[str]:
    """Return the names of all test functions and test modules."""
    files = sorted((pages.ROOT / "tests").rglob("test_*.py"))
    functions = (re.findall(r"def (test_\w+)", file.read_text(encoding="utf-8")) for file in files)
    return frozenset(chain((file.stem for file in files), *functions))


def _read_map() -> list[tuple[str, int]]:
    """Return the directories below `src/holdfast/` in the start page's map, each with its depth."""
    blocks = pages.parse_blocks(pages.DOCS / "index.md")
    maps = [block.text for block in blocks if "src/holdfast/\n" in block.text]
    assert len(maps) == 1, "docs/index.md has one map that begins at src/holdfast/"
    below = maps[0].split("src/holdfast/", 1)[1].splitlines()[1:]
    found: list[tuple[str, int]] = []
    for line in below:
        if not line.startswith(" "):
            break
        depth = 1 if len(line) - len(line.lstrip()) <= 2 else 2
        found += [(name.rstrip("/"), depth) for name in _find_leading_directories(line)]
    return found


def _find_leading_directories(line: str) -> list[str]:
    """Return the directories that a line of the map begins with; files are skipped."""
    names: list[str] = []
    for word in line.split():
        if not re.fullmatch(r"[a-z0-9_]+(/|\.py)", word):
            break
        names.append(word)
    return [name for name in names if name.endswith("/")]
