"""docs/tables.md lists what is served: no more and no less."""

from __future__ import annotations

import re

from holdfast.wire.operations import CODECS, NOT_SERVED
from tests.docs import pages


def test_the_operations_listed_are_those_that_are_served() -> None:
    text = (pages.DOCS / "tables.md").read_text()
    listed = re.findall(r"`([A-Z]\w+)`", text.partition("## What is served")[2].partition("\n\nOver HTTP")[0])

    served = {target.partition(".")[2] for target in CODECS}
    assert sorted(listed) == sorted(served)


def test_nothing_is_both_served_and_not() -> None:
    assert not {target.partition(".")[2] for target in CODECS} & NOT_SERVED
