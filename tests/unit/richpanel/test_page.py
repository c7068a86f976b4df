"""systems/richpanel/README.md says what is so: the settings, the files, and an answer to each open point of the document."""

from __future__ import annotations

from richpanel.settings import RANGES, SWITCHES, variable_of
from tests.docs import pages

PAGE = pages.ROOT / "systems" / "richpanel" / "README.md"


def cells(heading: str) -> list[list[str]]:
    return [[cell.strip("`") for cell in row] for row in pages.rows(pages.sections(PAGE, 2)[heading])]


def test_the_page_lists_every_setting_with_its_default_and_range() -> None:
    listed = {tuple(row[:3]) for row in cells("Settings") if row[0].startswith("RP_MW_")}

    numbers = {
        (variable_of(name), str(usual), f"{least} to {most}") for name, (least, usual, most) in RANGES.items()
    }
    assert listed == numbers | {
        (variable_of(name), "on" if usual else "off", "on, off") for name, usual in SWITCHES.items()
    }


def test_the_page_answers_each_open_point_of_the_document() -> None:
    assert [row[0] for row in cells("Where it differs from the document")] == [
        f"RP-X{number}" for number in range(1, 20)
    ]


def test_the_page_names_every_file_of_the_system() -> None:
    named = {
        span.rstrip("/")
        for row in pages.rows(pages.sections(PAGE, 2)["What is here"])
        for span in pages.code_spans(row[0])
    }

    there = {each.name for each in PAGE.parent.iterdir() if each.name not in ("README.md", "__pycache__")}
    assert named == there - {"__init__.py", "py.typed"}
