"""docs/guides/coming_from_boto3.md: its server can be started and called, and its error classes exist."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from holdfast.core import errors
from holdfast.stores.tables.dynamodb.errors import CODES
from tests.docs import pages
from tests.docs.reader import follow

PAGE: Final = pages.DOCS / "guides" / "coming_from_boto3.md"
ERROR_ROWS: Final = pages.parse_rows(pages.split_sections(PAGE, 3)["Errors"])


def test_program_on_the_page_runs_against_the_server(tmp_path: Path) -> None:
    reader = follow(PAGE, tmp_path)

    assert (reader.folder / "data" / "tables.db").exists()


def test_each_code_has_the_class_of_the_page() -> None:
    assert ERROR_ROWS
    for row in ERROR_ROWS:
        found, codes = getattr(errors, row[1].strip("`")), pages.find_code_spans(row[0])
        assert codes[0] == found.code
        assert {CODES.get(code, found) for code in codes} == {found}
