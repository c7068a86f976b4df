"""The SQL tutorial can be followed from an empty folder to its end, and its outbox is empty then."""

from __future__ import annotations

import pytest

from tests.docs import pages
from tests.docs.reader import FILE_OF_BLOCK, Reader, follow

PAGE = pages.DOCS / "tutorial" / "sql.md"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Follow the page to its end."""
    return follow(PAGE, tmp_path_factory.mktemp("sql-tutorial"))


def test_every_block_of_the_page_is_a_file_or_is_typed() -> None:
    for block in pages.parse_blocks(PAGE):
        known = FILE_OF_BLOCK.fullmatch(block.note) or block.language == "console"
        assert known, f"{PAGE.name}:{block.line}: nothing tries this block"


def test_the_started_worker_sends_the_waiting_message(reader: Reader) -> None:
    listed = reader.run("holdfast outbox list warehouse")

    assert listed.returncode == 0, listed.stderr
    assert "0 pending, 0 dead." in listed.stdout
