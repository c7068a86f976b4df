"""Command that measures how well retrieval answers questions to policies whose answers are known.

    python -m tripcortex.policies.accuracy FOLDER [--list] [--file NAME]…

FOLDER contains a folder for each policy, with `policy.pdf`, `policy.md` and `questions.json`: a list of
objects with `question`, `answer_quotes`, `section` and `page_pdf`. A passage is right if it contains one of
the quotes; its section and its page are right if they are those of the question. The output has one line for
each file, without texts; `--list` adds the questions that failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast import Stores
from tripcortex.policies.embedding import Embedding, build_local_embedding
from tripcortex.policies.file_search import ingest_file, open_policy_stores, search_policy
from tripcortex.policies.retrieval import RetrievedChunk

FILES: Final = ("policy.pdf", "policy.md")

_RULER: Final = re.compile(r"^\s*\|(?:\s*:?-+:?\s*\|)+\s*$", re.MULTILINE)
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+", re.MULTILINE)
_NUMBERING: Final = re.compile(r"^(?:(?:section|article|chapter|part)\s+)?(?:[\divx]+\b\s*)+", re.IGNORECASE)
_QUOTES: Final = str.maketrans("’‘“”–—‑\u00a0", "''\"\"--- ")


@dataclass(frozen=True)
class KnownQuestion:
    """A question with quotes of the passages that answer it, and where they are."""

    question: str
    quotes: tuple[str, ...]
    section: str
    page: int | None

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> KnownQuestion:
        return cls(
            values["question"], tuple(values["answer_quotes"]), values["section"], values.get("page_pdf")
        )


@dataclass(frozen=True)
class Outcome:
    """Whether one question found a right passage, with the right section and page."""

    question: str
    is_found: bool
    has_section: bool
    has_page: bool


@dataclass(frozen=True)
class FileAccuracy:
    """The results of one file."""

    name: str
    fragments: int
    seconds: float
    outcomes: tuple[Outcome, ...]

    def format_counts(self) -> str:
        """Return one line of counts."""
        found = [each for each in self.outcomes if each.is_found]
        sections, pages = sum(each.has_section for each in found), sum(each.has_page for each in found)
        return (
            f"{self.name}: {self.fragments} fragments, top five {len(found)} of {len(self.outcomes)}, "
            f"section {sections}, page {pages}, {self.seconds:.1f} s"
        )

    def format_failures(self) -> Iterator[str]:
        """Yield one line for each question without a right passage, section or page."""
        for each in self.outcomes:
            if not each.is_found:
                yield f"    not found: {each.question}"
            elif not each.has_section or not each.has_page:
                missing = "page" if each.has_section else "section"
                yield f"    wrong {missing}: {each.question}"


def is_quoted(quote: str, passage: str) -> bool:
    """Return whether the passage contains the quote, apart from white space, list marks and table borders."""
    return any(_normalize(quote) in each for each in (_normalize(passage), *_read_rows(passage)))


def is_same_section(expected: str, shown: str | None) -> bool:
    """Return whether both headings have the same words, apart from their numbering."""
    one, other = _get_heading_words(expected), _get_heading_words(shown or "")
    return one == other or (bool(one and other) and (one in other or other in one))


async def measure_file(
    stores: Stores, embedding: Embedding, file: Path, questions: Sequence[KnownQuestion]
) -> FileAccuracy:
    """Ingest the file, ask every question and compare the passages with the known answers."""
    started = time.perf_counter()
    policy = await ingest_file(stores, embedding, file.name, file.read_bytes())
    seconds = time.perf_counter() - started
    outcomes = []
    for each in questions:
        found = await search_policy(stores, embedding, policy.id, each.question)
        outcomes.append(_judge(each, found.chunks, has_pages=file.suffix == ".pdf"))
    return FileAccuracy(f"{file.parent.name}/{file.name}", policy.total_chunks or 0, seconds, tuple(outcomes))


def _judge(known: KnownQuestion, found: Sequence[RetrievedChunk], *, has_pages: bool) -> Outcome:
    """Compare the passages of a question with its known answer."""
    right = [each for each in found if any(is_quoted(quote, each.content_text) for quote in known.quotes)]
    return Outcome(
        known.question,
        bool(right),
        any(is_same_section(known.section, each.section_title) for each in right),
        any(each.source_page == (known.page if has_pages else None) for each in right),
    )


def _normalize(text: str) -> str:
    """Return the text in lower case with single spaces, without list marks and table borders."""
    plain = _LIST_MARK.sub("", _RULER.sub(" ", text)).translate(_QUOTES).lower()
    return " ".join(re.sub(r"[|*`\\]", " ", plain).split())


def _read_rows(passage: str) -> Iterator[str]:
    """Yield each line of a passage with the texts before the colons left out, as in "Route: Domestic"."""
    for line in passage.splitlines():
        if ": " in line:
            yield _normalize(re.sub(r"(?:^|[;,|])\s*[^:;,|]{1,60}: ", " ", line))


def _get_heading_words(title: str) -> str:
    """Return the words of a heading without its numbering."""
    words = " ".join(re.findall(r"[a-z0-9]+", title.translate(_QUOTES).lower()))
    return _NUMBERING.sub("", words) or words


def _find_policies(folder: Path) -> list[Path]:
    """Return the folders with questions, in order of their names; the folder itself if it has some."""
    if (folder / "questions.json").is_file():
        return [folder]
    return sorted(each.parent for each in folder.glob("*/questions.json"))


async def _main(folder: Path, names: Sequence[str], *, lists_failures: bool) -> None:
    """Measure every file in stores in memory, and print the counts and their sums."""
    embedding = build_local_embedding()
    measured: list[FileAccuracy] = []
    async with open_policy_stores() as stores:
        for policy in _find_policies(folder):
            asked = [
                KnownQuestion.from_json(each) for each in json.loads((policy / "questions.json").read_text())
            ]
            for name in names:
                if (policy / name).is_file():
                    measured.append(await measure_file(stores, embedding, policy / name, asked))
                    _print_file(measured[-1], lists_failures=lists_failures)
    for name in names:
        _print_sum(name, [each for each in measured if each.name.endswith(f"/{name}")])


def _print_file(measured: FileAccuracy, *, lists_failures: bool) -> None:
    lines = [measured.format_counts(), *(measured.format_failures() if lists_failures else ())]
    sys.stdout.write("\n".join(lines) + "\n")


def _print_sum(name: str, measured: Sequence[FileAccuracy]) -> None:
    """Print the sums of all files of one name."""
    outcomes = tuple(each for file in measured for each in file.outcomes)
    total = FileAccuracy(
        f"all {len(measured)} {name}",
        sum(each.fragments for each in measured),
        sum(each.seconds for each in measured),
        outcomes,
    )
    sys.stdout.write(total.format_counts() + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tripcortex.policies.accuracy")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", action="store_true", help="list the questions that failed")
    parser.add_argument("--file", action="append", help="the files to measure, policy.pdf and policy.md")
    options = parser.parse_args()
    asyncio.run(_main(options.folder, options.file or FILES, lists_failures=options.list))
