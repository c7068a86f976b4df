"""Limits for small documents that are expensive to read: each is refused with a reason or read in part."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.systems.tripcortex.unit.documents import bombs, documents
from tripcortex.documents import (
    ContentType,
    DocumentDamaged,
    DocumentTooLarge,
    MarkdownParser,
    PdfParser,
    isolation,
    ports,
)
from tripcortex.documents.markdown import MAX_IN_PROCESS_BYTES, MarkdownReader
from tripcortex.documents.parser_process import MEMORY_BYTES, _limit_memory
from tripcortex.documents.pdf import page
from tripcortex.documents.pdf.reader import PdfReader
from tripcortex.documents.sections import MAX_DEPTH, Sections

SECONDS = 6.0
# Uploads of fifty million bytes are allowed; these are small, so that only their content matters.
MAX_BYTES = 500_000


REFUSED = {
    "huge_page": "its page 1 measures 1,000,000 by 1,000,000 points, and sides of up to 14,400 are read",
    "many_letters": "its page 1 has 90,039 letters, and pages of up to 50,000 are read",
    "millions_of_letters": "more memory than the limit",
    "nested_forms": "than the limit",
    "unpacked_stream": "more memory than the limit",
    "unpacked_objects": "more memory than the limit",
}
# Drawings are not parsed: the parser reads the words and locates the figure.
READ = {"strokes": 2, "huge_picture": 2, "many_fonts": 2, "tiny_tiles": 2}
# These may be read or refused.
ODD = ("scattered_letters", "fine_grid", "deep_pages")


# One of each kind is read every day, each in a process that takes a while to start.
DAILY = ("huge_page", "many_letters", "strokes")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS refuses a limit of memory")
@pytest.mark.parametrize("names", [DAILY, pytest.param(tuple(bombs.BOMBS), marks=pytest.mark.soak)])
def test_document_bombs_stay_within_the_memory_limit(names: tuple[str, ...]) -> None:
    # A separate process measures the memory of its children.
    """Each is also refused with its reason, or read, as expected."""
    ran = subprocess.run(
        [sys.executable, "-m", bombs.__name__, str(SECONDS), *names], stdout=subprocess.PIPE, check=True
    )
    endings = [json.loads(line) for line in ran.stdout.splitlines()]
    assert tuple(ending["name"] for ending in endings) == names
    for ending in endings:
        require_bounded(ending)


def require_bounded(ending: dict[str, Any]) -> None:
    """Check the size, the memory and the outcome of one document."""
    bomb = ending["name"]
    assert ending["bytes"] < MAX_BYTES
    assert ending["largest_kilobytes"] * 1_024 < MEMORY_BYTES + 3 * MAX_BYTES, bomb
    if bomb in REFUSED:
        assert ending.get("refused") == DocumentTooLarge.code, bomb
        assert REFUSED[bomb] in ending["why"]
    elif bomb in READ:
        assert ending.get("entities") == READ[bomb], bomb
    else:
        assert bomb in ODD
        assert ending.get("entities") or ending["refused"] == DocumentDamaged.code, bomb


def test_refuses_a_text_that_takes_quadratic_time() -> None:
    unclosed = b"```a\n" * 20_000
    with pytest.raises(DocumentTooLarge, match="more time than the limit"):
        list(MarkdownParser(seconds=0.01).parse(unclosed, "policy.md"))


def test_macos_gets_no_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS refuses such a limit with an error, so the parser must not ask for one."""
    limited: list[int] = []
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: limited.append(kind))
    _limit_memory(MEMORY_BYTES)
    assert limited == [resource.RLIMIT_CORE, resource.RLIMIT_AS]
    monkeypatch.setattr(sys, "platform", "darwin")
    _limit_memory(MEMORY_BYTES)
    assert limited[2:] == [resource.RLIMIT_CORE]


def test_parser_process_reads_the_same_as_the_reader_in_process() -> None:
    body = documents.draw_document(
        lambda canvas: canvas.drawString(72, 700, "The first page has words."), documents.scan
    )
    progress_calls: list[tuple[int, int]] = []
    there = list(
        PdfParser().parse(body, "a.pdf", progress=lambda page, pages: progress_calls.append((page, pages)))
    )
    assert there == list(PdfReader().parse(body, "a.pdf"))
    assert there[1].content_type is ContentType.figure and there[1].crop
    assert progress_calls == [(1, 2), (2, 2)]
    text = b"# Policy\n\nEconomy class, \xe2\x80\x9calways\xe2\x80\x9d.\n\n" * 500
    assert len(text) > MAX_IN_PROCESS_BYTES
    assert list(MarkdownParser().parse(text, "a.md")) == list(MarkdownReader().parse(text, "a.md"))


def test_parser_process_ends_when_the_caller_stops_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class RecordingPopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **settings: Any) -> None:
            super().__init__(*arguments, **settings)
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", RecordingPopen)
    words = [lambda canvas: canvas.drawString(72, 700, "A page of words.")] * 300
    entities = PdfParser().parse(documents.draw_document(*words), "a.pdf")
    next(iter(entities))
    entities.close()  # type: ignore[attr-defined]
    (process,) = started
    assert process.returncode is not None


def test_crashed_parser_means_a_damaged_document() -> None:
    error = isolation._build_refusal(-signal.SIGSEGV, "a.pdf", 3)
    assert isinstance(error, DocumentDamaged) and "after its page 3" in error.message


def test_scales_down_a_crop_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    body = documents.draw_document(
        lambda canvas: canvas.drawString(72, 700, "The first page has words."), documents.scan
    )
    whole = documents.read(body)[1].crop or b""
    monkeypatch.setattr(page, "MAX_CROP_BYTES", len(whole) - 1)
    assert 0 < len(documents.read(body)[1].crop or b"") < len(whole)


def test_refuses_a_document_of_too_many_parts_or_with_one_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "MAX_ENTITIES", 2)
    monkeypatch.setattr(ports, "MAX_TEXT_CHARS", 20)
    with pytest.raises(DocumentTooLarge, match="more than 2 paragraphs"):
        list(MarkdownReader().parse(b"One.\n\nTwo.\n\nThree.\n", "a.md"))
    with pytest.raises(DocumentTooLarge, match="part no. 1 has 24 characters"):
        documents.read(
            documents.draw_document(lambda canvas: canvas.drawString(72, 700, "Twenty-four are in here."))
        )


def test_headings_below_the_maximum_depth_replace_the_deepest() -> None:
    sections = Sections()
    for rank in range(40):
        sections.enter(f"Heading {rank}", rank)
    assert len(sections.titles) == MAX_DEPTH
    assert (sections.titles[0], sections.nearest) == ("Heading 0", "Heading 39")
