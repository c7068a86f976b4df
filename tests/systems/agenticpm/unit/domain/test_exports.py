"""Tests of artefact exports as Markdown, CSV and Confluence pages: complete, and safe for any ticket text."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.exports import to_confluence, to_csv, to_markdown
from tests.systems.agenticpm.unit.writers.sample_contents import (
    BACKLOG_SUMMARY,
    CONTENTS,
    DELIVERY_STATE,
    make_raid_log,
    replace_at,
)

RAID, BACKLOG = ArtefactType.raid_log, ArtefactType.backlog_summary

NASTY = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[click](https://evil.example)",
    "![pixel](https://evil.example/p.png)",
    "<https://evil.example>",
    "a | b | c",
    "ends with a backslash \\",
    "\\| already escaped",
    "line one\n| line two |\n\n# heading",
    "`code` **bold** _it_ ~~gone~~",
    "&lt;b&gt; &#124;",
    "[ref]: https://evil.example",
    "# heading #",
    "- item",
    "1. item",
    "> quote",
    "---",
    "===",
    "``` fence",
    "'quoted' \"text\"",
)


def parse_markdown(text: str) -> list[Token]:
    """Parse a page of Markdown into all its tokens, inline tokens included."""
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [each for block in blocks for each in (block, *(block.children or []))]


def read_cells(text: str) -> list[str]:
    """Return the texts of all table cells of a Markdown page."""
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [
        "".join(child.content for child in inline.children or [])
        for opening, inline in pairwise(blocks)
        if opening.type == "td_open"
    ]


@pytest.mark.parametrize("type", ArtefactType)
def test_markdown_page_contains_the_whole_artefact(type: ArtefactType) -> None:
    page = to_markdown(type, CONTENTS[type])
    shown = " ".join(each.content for each in parse_markdown(page) if each.type == "text")
    for text in collect_texts(CONTENTS[type]):
        assert text in shown


def collect_texts(value: Any, name: str = "") -> list[str]:
    """Collect the texts of a content, except times and choices, which are shown in other words."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in collect_texts(inner, key)]
    if isinstance(value, list):
        return [each for inner in value for each in collect_texts(inner, name)]
    dated = name.endswith("_date") or name in ("date", "last_reviewed", "last_synced")
    chosen = name in ("status", "flag", "type", "source", "overall_status")
    return [] if dated or chosen or not isinstance(value, str) else [value]


def test_delivery_state_shows_its_status_colour_and_dates() -> None:
    page = to_markdown(ArtefactType.delivery_state, replace_at(DELIVERY_STATE, "overall_status", "amber"))
    assert page.startswith("# Delivery state\n\n**Status: 🟠 amber**\n\nOne-paragraph summary")
    assert "| Beta launch | 2026-03-15 | on track |" in page
    assert "| **Average cycle time in days** | 4.2 |" in page


def test_marks_empty_sections() -> None:
    assert "## Risks\n\nThere are none." in to_markdown(RAID, {"items": []})
    assert "Nothing has been decided yet" in to_markdown(ArtefactType.decision_log, {"decisions": []})
    nothing = replace_at(DELIVERY_STATE, "current_sprint", None)
    assert "There is no sprint" in to_markdown(ArtefactType.delivery_state, nothing)


@pytest.mark.parametrize("nasty", NASTY)
def test_escapes_ticket_text_in_markdown(nasty: str) -> None:
    page = to_markdown(RAID, make_raid_log("R001", title=nasty, owner=nasty))
    types = {each.type for each in parse_markdown(page)}
    assert not types & {
        "link_open",
        "image",
        "html_inline",
        "html_block",
        "code_inline",
        "em_open",
        "s_open",
        "strong_open",
    }
    assert len(read_cells(page)) == 11
    assert read_cells(page)[1] == read_cells(page)[5] == " ".join(nasty.split())


@pytest.mark.parametrize("nasty", NASTY)
def test_ticket_text_opens_no_markdown_block(nasty: str) -> None:
    plain_page = to_markdown(BACKLOG, replace_at(BACKLOG_SUMMARY, "scope_notes", "nothing"))
    nasty_page = to_markdown(BACKLOG, replace_at(BACKLOG_SUMMARY, "scope_notes", nasty))
    kinds = [each.type for each in MarkdownIt("commonmark").enable("table").parse(plain_page)]
    assert [each.type for each in MarkdownIt("commonmark").enable("table").parse(nasty_page)] == kinds


@pytest.mark.parametrize(
    "address", ["https://evil.example", "www.evil.example", "a@evil.example", "MAILTO:a"]
)
def test_addresses_are_not_turned_into_links(address: str) -> None:
    page = to_markdown(RAID, make_raid_log("R001", title=address))
    assert address not in page
    assert read_cells(page)[1] == address


def test_drops_invisible_and_bidirectional_characters() -> None:
    page = to_markdown(RAID, make_raid_log("R001", title="safe\u202egnp.exe\x00\x1b"))
    assert read_cells(page)[1] == "safegnp.exe"


# --- CSV ----------------------------------------------------------------------------------------------------


def read_csv(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("type", [RAID, ArtefactType.decision_log])
def test_csv_of_a_log_has_a_row_per_entry_and_a_column_per_field(type: ArtefactType) -> None:
    (things,) = CONTENTS[type].values()
    names, row = read_csv(to_csv(type, CONTENTS[type]))
    assert names == list(things[0])
    for name, cell in zip(names, row, strict=True):
        if things[0][name] is None or isinstance(things[0][name], str):
            assert cell == (things[0][name] or "")


def test_csv_shows_the_options_of_a_decision_in_one_cell() -> None:
    names, row = read_csv(to_csv(ArtefactType.decision_log, CONTENTS[ArtefactType.decision_log]))
    options = dict(zip(names, row, strict=True))["options_considered"]
    assert options.startswith(
        "Delay to mid-April (for: Lower risk; Within contingency budget; against: 4-week delay to market); "
        "Rush"
    )


def test_csv_of_other_artefacts_has_a_row_per_path() -> None:
    rows = dict(read_csv(to_csv(BACKLOG, BACKLOG_SUMMARY)))
    assert rows["summary.by_status.to_do"] == "22"
    assert rows["highlights[0].ticket_id"] == "MCU-142"
    state = dict(
        read_csv(to_csv(ArtefactType.delivery_state, replace_at(DELIVERY_STATE, "next_actions", [])))
    )
    assert state["key_metrics.avg_cycle_time_days"] == "4.2"
    assert state["next_actions"] == ""


def test_csv_line_ends_and_quotes_follow_rfc_4180() -> None:
    text = to_csv(RAID, make_raid_log("R001", title='say "hi", twice\nplease'))
    assert text.count("\r\n") == 2
    assert '"say ""hi"", twice\nplease"' in text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_csv_cell_never_starts_a_formula(start: str) -> None:
    _, row = read_csv(to_csv(RAID, make_raid_log("R001", title=f"{start}cmd|' /C calc'!A0")))
    assert row[2] == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("type", ArtefactType)
def test_does_not_export_an_invalid_content(type: ArtefactType) -> None:
    for export in (to_markdown, to_csv, to_confluence):
        with pytest.raises(ValueError, match="Invalid"):
            export(type, {"nonsense": 1})


# --- Confluence ---------------------------------------------------------------------------------------------


def parse_xml(body: str) -> ElementTree.Element:
    return ElementTree.fromstring(f'<page xmlns:ac="http://atlassian.com/content">{body}</page>')


@pytest.mark.parametrize("type", ArtefactType)
def test_confluence_page_is_well_formed_and_complete(type: ArtefactType) -> None:
    shown = " ".join(parse_xml(to_confluence(type, CONTENTS[type])).itertext())
    for text in collect_texts(CONTENTS[type]):
        assert text in shown


def test_uses_the_confluence_status_macro() -> None:
    page = parse_xml(to_confluence(ArtefactType.delivery_state, DELIVERY_STATE))
    (macro,) = page.iter("{http://atlassian.com/content}structured-macro")
    assert [each.text for each in macro] == ["Green", "green"]


@pytest.mark.parametrize("nasty", [*NASTY, "]]>", '<ac:structured-macro ac:name="html"/>', "\x00\x0b\ufffe"])
def test_escapes_ticket_text_in_confluence(nasty: str) -> None:
    plain_page = parse_xml(to_confluence(RAID, make_raid_log("R001", description="nothing")))
    nasty_page = parse_xml(to_confluence(RAID, make_raid_log("R001", description=nasty)))
    assert [each.tag for each in nasty_page.iter()] == [each.tag for each in plain_page.iter()]
