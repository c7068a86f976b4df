"""docs/systems/richpanel/index.md: its settings, files and answers to open points are accurate."""

from __future__ import annotations

from richpanel.settings import RANGES, SWITCHES, get_variable_name
from tests.docs import pages

PAGE = pages.DOCS / "systems" / "richpanel" / "index.md"
FOLDER = pages.ROOT / "systems" / "richpanel"


def get_table_cells(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading of the page."""
    return [
        [cell.strip("`") for cell in row] for row in pages.parse_rows(pages.split_sections(PAGE, 2)[heading])
    ]


def test_lists_every_setting_with_default_and_range() -> None:
    listed = {tuple(row[:3]) for row in get_table_cells("Settings") if row[0].startswith("RP_MW_")}

    numbers = {
        (get_variable_name(name), str(usual), f"{least} to {most}")
        for name, (least, usual, most) in RANGES.items()
    }
    assert listed == numbers | {
        (get_variable_name(name), "on" if usual else "off", "on, off") for name, usual in SWITCHES.items()
    }


def test_answers_every_open_point_of_the_document() -> None:
    assert [row[0] for row in get_table_cells("Where it differs from the document")] == [
        f"RP-X{number}" for number in range(1, 20)
    ]


def test_names_every_file_of_the_system() -> None:
    named = {
        span.rstrip("/")
        for row in pages.parse_rows(pages.split_sections(PAGE, 2)["Layout"])
        for span in pages.find_code_spans(row[0])
    }
    assert sorted(each for each in named if not (FOLDER / each).exists()) == []

    files = {
        each.relative_to(FOLDER)
        for each in FOLDER.rglob("*")
        if each.is_file()
        and each.suffix != ".pyc"
        and each.name not in ("LICENSE", "README.md", "__init__.py", "py.typed", "pyproject.toml")
    }
    covered = {each for each in files if named & {str(each), *map(str, each.parents)}}
    assert files - covered == set()
