"""Tests of the conversion between Atlassian Document Format and plain text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenticpm.integrations.jira.adf import ELLIPSIS, MAX_DEPTH, build_document, to_plain_text


def node(kind: str, *content: Any, **attrs: Any) -> dict[str, Any]:
    return {"type": kind, "content": list(content), "attrs": attrs}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words, "marks": [{"type": "strong"}]}


def paragraph(*content: Any) -> dict[str, Any]:
    return node("paragraph", *content)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([paragraph(text("One "), text("line.")), paragraph(text("Two."))], "One line.\nTwo."),
        ([node("heading", text("Why"), level=2), paragraph(text("Because"))], "Why\nBecause"),
        ([node("codeBlock", text("a = 1\nb = 2"), language="python")], "a = 1\nb = 2"),
        ([paragraph(text("a"), {"type": "hardBreak"}, text("b"))], "a\nb"),
        (
            [paragraph(text("Ask "), {"type": "mention", "attrs": {"id": "1", "text": "@Sarah K"}})],
            "Ask @Sarah K",
        ),
        ([paragraph({"type": "emoji", "attrs": {"shortName": ":+1:"}})], ":+1:"),
        ([paragraph({"type": "date", "attrs": {"timestamp": "1770163200000"}})], "2026-02-04"),
        ([paragraph({"type": "date", "attrs": {"timestamp": "soon"}})], ""),
        ([paragraph({"type": "status", "attrs": {"text": "AT RISK"}})], "AT RISK"),
        ([node("blockCard", url="https://example.com/a")], "https://example.com/a"),
        ([paragraph(text("a")), {"type": "rule"}, paragraph(text("b"))], "a\n---\nb"),
        (
            [
                node(
                    "bulletList",
                    node("listItem", paragraph(text("a"))),
                    node("listItem", paragraph(text("b"))),
                )
            ],
            "- a\n- b",
        ),
        (
            [
                node(
                    "orderedList",
                    node(
                        "listItem",
                        paragraph(text("a")),
                        node("bulletList", node("listItem", paragraph(text("deep")))),
                    ),
                    node("listItem", paragraph(text("b"))),
                )
            ],
            "1. a\n   - deep\n2. b",
        ),
        ([node("taskList", node("taskItem", text("do it"), state="TODO"))], "- do it"),
        (
            [
                node(
                    "table",
                    node(
                        "tableRow",
                        node("tableHeader", paragraph(text("a"))),
                        node("tableCell", paragraph(text("b"))),
                    ),
                )
            ],
            "a | b",
        ),
        ([node("panel", paragraph(text("mind")), panelType="info")], "mind"),
        ([node("mediaSingle", {"type": "media", "attrs": {"id": "x", "alt": "a plan"}})], "a plan"),
        ([node("tomorrowsNode", paragraph(text("still read")))], "still read"),
        ([{"type": "nothingAtAll"}, 7, None, "loose"], ""),
    ],
)
def test_shows_the_words_of_every_kind_of_node(nodes: list[Any], expected: str) -> None:
    assert to_plain_text({"type": "doc", "version": 1, "content": nodes}) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(None, ""), (" plain \n", "plain"), (7, ""), ([], ""), ({}, "")]
)
def test_strips_a_plain_string_and_returns_nothing_for_other_values(value: Any, expected: str) -> None:
    assert to_plain_text(value) == expected


def test_limits_the_nesting_depth() -> None:
    nested: Any = paragraph(text("bottom"))
    for _ in range(5000):
        nested = node("blockquote", nested)
    assert to_plain_text(nested) == ELLIPSIS
    for _ in range(MAX_DEPTH * 100):
        nested = node("orderedList", node("listItem", nested))
    assert to_plain_text(nested).endswith(ELLIPSIS)


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"]), min_size=1)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=3), max_size=4))
def test_text_round_trips_through_a_document(paragraphs: list[list[str]]) -> None:
    shown = to_plain_text(build_document("\n\n".join("\n".join(lines) for lines in paragraphs)))
    assert shown.split() == [word for lines in paragraphs for word in lines]


def test_a_document_has_no_empty_text() -> None:
    assert build_document("a\n\n\n\n\r\nb") == {
        "type": "doc",
        "version": 1,
        "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": "a"}]},
            {"type": "paragraph", "content": [{"type": "text", "text": "b"}]},
        ],
    }
