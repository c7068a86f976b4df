"""docs/reference/tables.md lists exactly the DynamoDB operations that the wire serves."""

from __future__ import annotations

import re

from holdfast.wire.operations import CODECS, NOT_SERVED
from tests.docs import pages


def test_the_page_lists_the_served_operations() -> None:
    text = (pages.DOCS / "reference" / "tables.md").read_text()
    listed = re.findall(r"`([A-Z]\w+)`", text.partition("## What is served")[2].partition("\n\nOver HTTP")[0])

    served = {target.partition(".")[2] for target in CODECS}
    assert sorted(listed) == sorted(served)


def test_no_operation_is_listed_as_served_and_as_not_served() -> None:
    assert not {target.partition(".")[2] for target in CODECS} & NOT_SERVED
