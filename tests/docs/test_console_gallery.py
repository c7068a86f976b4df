"""The pictures of the console: each is shown, and each comes from a screenshot that a browser test takes."""

from __future__ import annotations

import re

from tests.console.gallery import PICTURES, list_all_pictures
from tests.docs import pages

BROWSER_TESTS = pages.ROOT / "tests" / "console"


def test_every_picture_is_on_a_page() -> None:
    assert sorted(list_all_pictures()) == sorted(each.stem for each in PICTURES.glob("*.png"))


def test_every_picture_is_taken_by_a_browser_test() -> None:
    source = "".join(each.read_text(encoding="utf-8") for each in BROWSER_TESTS.glob("test_*.py"))
    taken = set(re.findall(r"\.check\(f?\"([a-z-]+)", source))
    names = {re.sub(r"-(1440|400)(-dark)?$", "", name) for name in list_all_pictures()}

    assert sorted(name for name in names if not any(name.startswith(each) for each in taken)) == []
    assert len(names) > 10
