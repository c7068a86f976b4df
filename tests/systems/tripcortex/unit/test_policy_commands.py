"""Tests of `policies ask`: it answers from a file alone, as the product does after an upload."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Explanation
from tests.systems.tripcortex.unit.documents.documents import heading, layout_document, paragraph
from tripcortex.api.commands import COMMANDS
from tripcortex.api.policy_commands import policies_ask

HOTELS = "A hotel room costs at most 200 USD a night."
POLICY = f"# Travel\n\n## Hotels\n\n{HOTELS}\n\n## Trains\n\nThe second class is booked on every train.\n"


async def test_answers_several_questions_from_a_markdown_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.md"
    file.write_text(POLICY)
    result = await policies_ask(file, ["How much may a hotel cost?", "Who painted the Mona Lisa?"])
    assert isinstance(result, Explanation)
    hotels, other = result.data
    assert hotels["question"] == "How much may a hotel cost?"
    first = hotels["passages"][0]
    assert (first["text"], first["section"], first["page"]) == (HOTELS, "Hotels", None)
    assert 0 < first["score"] <= 1 and set(first) == {"text", "section", "page", "score"}
    assert other == {"question": "Who painted the Mona Lisa?", "passages": []}
    assert "no passage found" in result.lines[-1]


async def test_names_the_page_of_a_pdf(tmp_path: Path) -> None:
    file = tmp_path / "policy.pdf"
    file.write_bytes(layout_document([heading("Hotels"), paragraph(HOTELS)]))
    result = await policies_ask(file, ["How much may a hotel cost?"])
    assert [(each["text"], each["page"]) for each in result.data[0]["passages"]] == [(HOTELS, 1)]
    assert any("page 1, Hotels" in line for line in result.lines)


async def test_needs_no_store_and_refuses_a_file_that_is_not_a_policy(tmp_path: Path) -> None:
    assert not COMMANDS["policies ask"].needs_stores
    with pytest.raises(InvalidRequest, match=r"Could not read .*none\.md"):
        await policies_ask(tmp_path / "none.md", ["Which cabin?"])
    (tmp_path / "scan.pdf").write_bytes(b"not a PDF")
    with pytest.raises(InvalidRequest, match="no PDF header"):
        await policies_ask(tmp_path / "scan.pdf", ["Which cabin?"])
