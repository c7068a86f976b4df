"""Tests of the Markdown parser: the entities of given texts, and properties of any text."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tripcortex.documents import ContentType, DocumentEmpty, MarkdownParser, ParsedEntity

HANDBOOK = """\
---
title: "Book travel"
sidebar:
  navigation: travel
---

{% alert "Updated guidance" %}
  See [the news]({% page "/july-13/" %}#news) first.
{% endalert %}

## Flights

Use **Concur** at
[travel.example](https://travel.example) for _all_ bookings.
{% image "_img/fares.png" "the list of fares" %}

1. Search
2. Choose
   - the lowest fare
   - or a **preferred** one
3. Reserve

### Caps

| Route | Cap |
| :---- | --: |
| Domestic | `500` |
| Long \\| haul | 3200 |

```text
{% keep %} this as it is
```

# Hotels

> Stay near the office.

<p>Or <b>not</b>.</p>
"""


def read(source: str) -> list[ParsedEntity]:
    return list(MarkdownParser().parse(source.encode(), "handbook.md"))


def test_recognizes_sections_paragraphs_lists_tables_code_and_pictures() -> None:
    assert [(entity.subtype, entity.section_title, entity.text) for entity in read(HANDBOOK)] == [
        ("PARAGRAPH", "Book travel", "Updated guidance"),
        ("PARAGRAPH", "Book travel", "See the news first."),
        ("SECTION_TITLE", "Flights", "Flights"),
        ("PARAGRAPH", "Flights", "Use Concur at travel.example for all bookings."),
        ("IMAGE", "Flights", "the list of fares (_img/fares.png)"),
        ("LIST", "Flights", "1. Search\n2. Choose\n  - the lowest fare\n  - or a preferred one\n3. Reserve"),
        ("SECTION_TITLE", "Caps", "Caps"),
        ("TABLE", "Caps", "| Route | Cap |\n| --- | --- |\n| Domestic | 500 |\n| Long \\| haul | 3200 |"),
        ("CODE", "Caps", "{% keep %} this as it is"),
        ("TITLE", "Hotels", "Hotels"),
        ("PARAGRAPH", "Hotels", "Stay near the office."),
        ("PARAGRAPH", "Hotels", "Or not."),
    ]


@pytest.mark.proves("TC-25")
def test_markdown_gives_text_tables_and_figures_without_pages() -> None:
    entities = read(HANDBOOK)
    assert {entity.content_type for entity in entities} == set(ContentType)
    assert {entity.page for entity in entities} == {None}
    assert [entity.reading_order for entity in entities] == list(range(1, len(entities) + 1))
    assert len({entity.entity_id for entity in entities}) == len(entities)


def test_lists_headings_from_the_outermost() -> None:
    caps = next(entity for entity in read(HANDBOOK) if entity.subtype == "TABLE")
    assert caps.sections == ("Book travel", "Flights", "Caps")


def test_splits_a_long_list_between_items() -> None:
    items = [f"- item {number} {'word ' * 60}".strip() for number in range(40)]
    parts = read("# Items\n\n" + "\n".join(items))[1:]
    assert len(parts) > 1 and all(len(part.text) <= 2_000 for part in parts)
    assert "\n".join(part.text for part in parts) == "\n".join(items)


def test_section_title_of_a_long_heading_is_cut_to_255_characters() -> None:
    (heading,) = read("# " + "very " * 200 + "long")
    assert heading.section_title is not None and len(heading.section_title) == 255
    assert len(heading.text) > 900


@given(st.text(max_size=400))
def test_any_text_gives_entities_with_text_or_is_refused_as_empty(source: str) -> None:
    with suppress(DocumentEmpty):
        assert all(entity.text for entity in read(source))


@given(st.lists(st.text("abcdefgh", min_size=1, max_size=8), min_size=1, max_size=60))
def test_every_word_is_read_once_and_in_order(words: list[str]) -> None:
    shapes = ("# {}", "{}", "- {}", "1. {}", "> {}", "[{}](#there)", "**{}**")
    source = "\n\n".join(shapes[place % len(shapes)].format(word) for place, word in enumerate(words))
    found = " ".join(entity.text for entity in read(source)).replace("- ", "").replace("1. ", "").split()
    assert found == words
