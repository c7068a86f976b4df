"""Artefacts as Markdown, CSV and Confluence pages: complete, and harmless whatever a ticket says."""

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
from tests.unit.agenticpm.sample_contents import BACKLOG_SUMMARY, CONTENTS, DELIVERY_STATE, changed, raid_log

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


def rendered(text: str) -> list[Token]:
    """All tokens of a page as a reader of Markdown finds them, with those inside of lines."""
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [each for block in blocks for each in (block, *(block.children or []))]


def cells(text: str) -> list[str]:
    blocks = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    return [
        "".join(child.content for child in inline.children or [])
        for opening, inline in pairwise(blocks)
        if opening.type == "td_open"
    ]


@pytest.mark.parametrize("type", ArtefactType)
def test_a_page_of_markdown_has_all_that_the_artefact_says(type: ArtefactType) -> None:
    page = to_markdown(type, CONTENTS[type])
    shown = " ".join(each.content for each in rendered(page) if each.type == "text")
    for text in texts(CONTENTS[type]):
        assert text in shown


def texts(value: Any, name: str = "") -> list[str]:
    """The texts of a content, without its times and choices, which are shown in other words."""
    if isinstance(value, dict):
        return [each for key, inner in value.items() for each in texts(inner, key)]
    if isinstance(value, list):
        return [each for inner in value for each in texts(inner, name)]
    dated = name.endswith("_date") or name in ("date", "last_reviewed", "last_synced")
    chosen = name in ("status", "flag", "type", "source", "overall_status")
    return [] if dated or chosen or not isinstance(value, str) else [value]


def test_a_delivery_state_shows_its_light_and_its_dates() -> None:
    page = to_markdown(ArtefactType.delivery_state, changed(DELIVERY_STATE, "overall_status", "amber"))
    assert page.startswith("# Delivery state\n\n**Status: 🟠 amber**\n\nOne-paragraph summary")
    assert "| Beta launch | 2026-03-15 | on track |" in page
    assert "| **Average cycle time in days** | 4.2 |" in page


def test_what_is_empty_is_said_to_be() -> None:
    assert "## Risks\n\nThere are none." in to_markdown(RAID, {"items": []})
    assert "Nothing has been decided yet" in to_markdown(ArtefactType.decision_log, {"decisions": []})
    nothing = changed(DELIVERY_STATE, "current_sprint", None)
    assert "There is no sprint" in to_markdown(ArtefactType.delivery_state, nothing)


@pytest.mark.parametrize("nasty", NASTY)
def test_a_text_of_a_ticket_means_nothing_but_itself_in_markdown(nasty: str) -> None:
    page = to_markdown(RAID, raid_log("R001", title=nasty, owner=nasty))
    types = {each.type for each in rendered(page)}
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
    assert len(cells(page)) == 11
    assert cells(page)[1] == cells(page)[5] == " ".join(nasty.split())


@pytest.mark.parametrize("nasty", NASTY)
def test_a_text_of_a_ticket_opens_no_block_in_markdown(nasty: str) -> None:
    plain_page = to_markdown(BACKLOG, changed(BACKLOG_SUMMARY, "scope_notes", "nothing"))
    nasty_page = to_markdown(BACKLOG, changed(BACKLOG_SUMMARY, "scope_notes", nasty))
    kinds = [each.type for each in MarkdownIt("commonmark").enable("table").parse(plain_page)]
    assert [each.type for each in MarkdownIt("commonmark").enable("table").parse(nasty_page)] == kinds


@pytest.mark.parametrize(
    "address", ["https://evil.example", "www.evil.example", "a@evil.example", "MAILTO:a"]
)
def test_an_address_is_not_made_a_link_by_readers_that_look_for_them(address: str) -> None:
    page = to_markdown(RAID, raid_log("R001", title=address))
    assert address not in page
    assert cells(page)[1] == address


def test_what_would_hide_or_turn_around_a_text_is_left_out() -> None:
    page = to_markdown(RAID, raid_log("R001", title="safe\u202egnp.exe\x00\x1b"))
    assert cells(page)[1] == "safegnp.exe"


# --- CSV ----------------------------------------------------------------------------------------------------


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("type", [RAID, ArtefactType.decision_log])
def test_a_log_has_a_row_for_each_thing_and_a_column_for_each_field(type: ArtefactType) -> None:
    (things,) = CONTENTS[type].values()
    names, row = read(to_csv(type, CONTENTS[type]))
    assert names == list(things[0])
    for name, cell in zip(names, row, strict=True):
        if things[0][name] is None or isinstance(things[0][name], str):
            assert cell == (things[0][name] or "")


def test_a_decision_shows_its_options_in_one_cell() -> None:
    names, row = read(to_csv(ArtefactType.decision_log, CONTENTS[ArtefactType.decision_log]))
    told = dict(zip(names, row, strict=True))["options_considered"]
    assert told.startswith(
        "Delay to mid-April (for: Lower risk; Within contingency budget; against: 4-week delay to market); Rush"
    )


def test_other_artefacts_have_a_row_for_each_place() -> None:
    rows = dict(read(to_csv(BACKLOG, BACKLOG_SUMMARY)))
    assert rows["summary.by_status.to_do"] == "22"
    assert rows["highlights[0].ticket_id"] == "MCU-142"
    state = dict(read(to_csv(ArtefactType.delivery_state, changed(DELIVERY_STATE, "next_actions", []))))
    assert state["key_metrics.avg_cycle_time_days"] == "4.2"
    assert state["next_actions"] == ""


def test_lines_end_and_quotes_are_doubled_as_rfc_4180_says() -> None:
    text = to_csv(RAID, raid_log("R001", title='say "hi", twice\nplease'))
    assert text.count("\r\n") == 2
    assert '"say ""hi"", twice\nplease"' in text


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝"])
def test_a_cell_does_not_start_a_formula(start: str) -> None:
    _, row = read(to_csv(RAID, raid_log("R001", title=f"{start}cmd|' /C calc'!A0")))
    assert row[2] == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("type", ArtefactType)
def test_what_breaks_its_schema_is_not_exported(type: ArtefactType) -> None:
    for export in (to_markdown, to_csv, to_confluence):
        with pytest.raises(ValueError, match="Invalid"):
            export(type, {"nonsense": 1})


# --- Confluence ---------------------------------------------------------------------------------------------


def as_xml(body: str) -> ElementTree.Element:
    return ElementTree.fromstring(f'<page xmlns:ac="http://atlassian.com/content">{body}</page>')


@pytest.mark.parametrize("type", ArtefactType)
def test_a_page_of_confluence_is_well_formed_and_complete(type: ArtefactType) -> None:
    shown = " ".join(as_xml(to_confluence(type, CONTENTS[type])).itertext())
    for text in texts(CONTENTS[type]):
        assert text in shown


def test_the_light_is_confluences_own() -> None:
    page = as_xml(to_confluence(ArtefactType.delivery_state, DELIVERY_STATE))
    (macro,) = page.iter("{http://atlassian.com/content}structured-macro")
    assert [each.text for each in macro] == ["Green", "green"]


@pytest.mark.parametrize("nasty", [*NASTY, "]]>", '<ac:structured-macro ac:name="html"/>', "\x00\x0b\ufffe"])
def test_a_text_of_a_ticket_means_nothing_but_itself_in_confluence(nasty: str) -> None:
    plain_page = as_xml(to_confluence(RAID, raid_log("R001", description="nothing")))
    nasty_page = as_xml(to_confluence(RAID, raid_log("R001", description=nasty)))
    assert [each.tag for each in nasty_page.iter()] == [each.tag for each in plain_page.iter()]
