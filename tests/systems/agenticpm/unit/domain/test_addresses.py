"""Tests of mail addresses: validation, and removal of links and addresses from other people's texts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenticpm.domain.addresses import (
    ADDRESS_REMOVED,
    LINK_REMOVED,
    MAX_OUTWARD_CHARS,
    is_address,
    sanitize_line,
    sanitize_text,
)


@pytest.mark.parametrize("address", ["a@b.example", "first.last+tag@mail.acme.example", "o'neil@a-b.example"])
def test_accepts_a_single_address(address: str) -> None:
    assert is_address(address)


@pytest.mark.parametrize(
    "value",
    [
        "a,evil@b.example",
        "a@b.example,evil@c.example",
        "a@b.example;evil@c.example",
        "Ada <a@b.example>",
        "<a@b.example>",
        "a b@c.example",
        "a@b@c.example",
        "a@b.example\nBcc: evil@c.example",
        "a@b.example\n",
        "a\u200b@b.example",
        '"a"@b.example',
        "@b.example",
        "a@",
        "a@b",
        "a@.example",
        "a@b..example",
        ".a@b.example",
        "a..b@c.example",
        "a@-b.example",
        "a" * 65 + "@b.example",
        "a@" + "b." * 130 + "example",
        "",
        None,
        7,
        ["a@b.example"],
    ],
)
def test_rejects_anything_but_a_single_address(value: Any) -> None:
    assert not is_address(value)


@pytest.mark.parametrize(
    ("foreign", "outward"),
    [
        ("sign in at https://evil.example/login now", f"sign in at {LINK_REMOVED} now"),
        ("HTTPS://evil.example", LINK_REMOVED),
        ("see [here](https://evil.example)", f"see [here]({LINK_REMOVED}"),
        ("www.evil.example/x", LINK_REMOVED),
        ("evil.example/login", "evil[.]example/login"),
        ("\u0435vil\u3002example", "\u0435vil[.]example"),
        ("mailto:boss@evil.example", LINK_REMOVED),
        ("javascript:alert(1)", LINK_REMOVED),
        ("write to boss@evil.example today", f"write to {ADDRESS_REMOVED} today"),
        ("ht\u200btps://evil.example", "ht " + LINK_REMOVED),
        ("a\x00b\x1b[2Jc", "a b [2Jc"),
        (
            "Release 1.2 is late. R001 was due on 2026-02-01",
            "Release 1.2 is late. R001 was due on 2026-02-01",
        ),
        ("Wait: the API (v2) fails, e.g. twice", "Wait: the API (v2) fails, e.g. twice"),
    ],
)
def test_removes_links_and_addresses_of_other_people(foreign: str, outward: str) -> None:
    assert sanitize_line(foreign, 200) == outward


def test_keeps_the_lines_of_a_text_and_truncates_it() -> None:
    assert sanitize_text("One\r\ntwo: https://evil.example\n\nthree") == f"One\ntwo: {LINK_REMOVED}\n\nthree"
    assert len(sanitize_text("word " * MAX_OUTWARD_CHARS)) == MAX_OUTWARD_CHARS


CLICKABLE = re.compile(r"://|\bwww\.\S|\bmailto:\S|[^\W_]\.[^\W\d_]{2}|\w@\w+\.\w", re.IGNORECASE)


@given(
    st.lists(
        st.sampled_from(
            [
                "https://",
                "http:",
                "//",
                "www.",
                "evil",
                ".example",
                "@",
                "/x",
                " ",
                "\u200b",
                "\n",
                "mailto:",
                "](",
            ]
        ),
        max_size=12,
    ).map("".join)
)
@example("wwwwww.evil")
@example("http:@http:.example@http:.example")
def test_leaves_nothing_that_a_mail_client_turns_into_a_link(foreign: str) -> None:
    shown = sanitize_text(foreign)
    assert CLICKABLE.search(shown.replace("[link removed]", " ")) is None, shown
    assert sanitize_text(shown) == shown
