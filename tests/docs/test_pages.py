"""The pages hold together: links lead somewhere, words mean one thing, decisions are numbered."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs import pages

HOUSE = pages.ROOT / "src" / "holdfast"


@pytest.mark.parametrize("page", pages.pages(), ids=pages.name_of)
def test_every_link_of_the_page_leads_somewhere(page: Path) -> None:
    for target in pages.LINK.findall(pages.prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        assert not path.startswith("/"), f"{target} starts at the root of a machine"
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), f"{target} is not there"
        if anchor and found.suffix == ".md":
            assert anchor in pages.anchors(found), f"{target}: no heading of that name"


def test_the_readme_maps_exactly_the_rooms_of_the_house() -> None:
    mapped = [name for name, depth in _rooms_in_the_readme() if depth == 1]
    there = {path.parent.name for path in HOUSE.glob("*/*.py")}

    assert sorted(mapped) == sorted(there)


def test_the_readme_maps_no_room_within_a_room_that_is_not_there() -> None:
    room = ""
    for name, depth in _rooms_in_the_readme():
        if depth == 1:
            room = name
        else:
            assert list((HOUSE / room).rglob(name)), f"{name} is nowhere in {room}"


def test_the_glossary_explains_each_word_once_in_order() -> None:
    words = [row[0].casefold() for row in pages.rows(pages.prose(pages.DOCS / "glossary.md"))]

    assert words
    assert words == sorted(set(words))


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (pages.DOCS / "decisions").glob("*.md"))

    numbers = [re.match(r"(\d{4})-[a-z0-9-]+\.md$", name) for name in names]
    assert all(numbers), f"a decision is called NNNN-title.md: {names}"
    assert [int(number[1]) for number in numbers if number] == list(range(1, len(names) + 1))


def test_every_decision_is_titled_with_its_number() -> None:
    for path in (pages.DOCS / "decisions").glob("*.md"):
        assert path.read_text(encoding="utf-8").startswith(f"# {path.name[:4]}"), path.name


def _rooms_in_the_readme() -> list[tuple[str, int]]:
    """The directories drawn below `src/holdfast/` in the README, each with its depth."""
    drawings = [
        block.text for block in pages.blocks(pages.ROOT / "README.md") if "src/holdfast/" in block.text
    ]
    assert len(drawings) == 1, "the README draws the house once, in a block that begins at src/holdfast/"
    below = drawings[0].split("src/holdfast/", 1)[1].splitlines()[1:]
    rooms: list[tuple[str, int]] = []
    for line in below:
        if not line.startswith(" "):
            break
        depth = 1 if len(line) - len(line.lstrip()) <= 2 else 2
        rooms += [(name.rstrip("/"), depth) for name in _leading_directories(line)]
    return rooms


def _leading_directories(line: str) -> list[str]:
    names: list[str] = []
    for word in line.split():
        if not re.fullmatch(r"[a-z0-9_]+(/|\.py)", word):
            break
        names.append(word)
    return [name for name in names if name.endswith("/")]
