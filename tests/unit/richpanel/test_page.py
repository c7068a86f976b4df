"""systems/richpanel/README.md says what is so: the settings, the files, and an answer to each open point of the document."""

from __future__ import annotations

from richpanel.settings import RANGES, SWITCHES, get_variable_name
from tests.docs import pages

PAGE = pages.ROOT / "systems" / "richpanel" / "README.md"


def cells(heading: str) -> list[list[str]]:
    return [[cell.strip("`") for cell in row] for row in pages.rows(pages.sections(PAGE, 2)[heading])]


def test_the_page_lists_every_setting_with_its_default_and_range() -> None:
    listed = {tuple(row[:3]) for row in cells("Settings") if row[0].startswith("RP_MW_")}

    numbers = {
        (get_variable_name(name), str(usual), f"{least} to {most}")
        for name, (least, usual, most) in RANGES.items()
    }
    assert listed == numbers | {
        (get_variable_name(name), "on" if usual else "off", "on, off") for name, usual in SWITCHES.items()
    }


def test_the_page_answers_each_open_point_of_the_document() -> None:
    assert [row[0] for row in cells("Where it differs from the document")] == [
        f"RP-X{number}" for number in range(1, 20)
    ]


def test_the_page_names_every_file_of_the_system() -> None:
    named = {
        span.rstrip("/")
        for row in pages.rows(pages.sections(PAGE, 2)["Layout"])
        for span in pages.code_spans(row[0])
    }
    assert sorted(each for each in named if not (PAGE.parent / each).exists()) == []

    files = {
        each.relative_to(PAGE.parent)
        for each in PAGE.parent.rglob("*")
        if each.is_file()
        and each.suffix != ".pyc"
        and each.name not in ("README.md", "__init__.py", "py.typed")
    }
    covered = {each for each in files if named & {str(each), *map(str, each.parents)}}
    assert files - covered == set()
