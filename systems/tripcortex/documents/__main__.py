"""The command `python -m tripcortex.documents FILE`: parses a document and prints its entities."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .factory import open_parser
from .pdf.parser import MAX_PAGES
from .ports import DocumentRefused, ParsedEntity, Progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the file and print its entities as a table, or as JSON with `--json`.

    Return the exit code: 1 if the document is refused or the file is unreadable.
    """
    options = _parse_arguments(arguments)
    try:
        body = options.file.read_bytes()
        parser = open_parser(options.file.name, body, pages_max=options.pages_max)
        entities = parser.parse(body, options.file.name, progress=_open_progress())
        _print_json(entities) if options.json else _print_table(entities)
    except (DocumentRefused, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tripcortex.documents", description="Parse a policy document and show its entities."
    )
    parser.add_argument("file", type=Path, help="a PDF or a Markdown file")
    parser.add_argument("--json", action="store_true", help="print one entity per line as JSON")
    parser.add_argument("--pages-max", type=int, default=MAX_PAGES, help="refuse a document with more pages")
    return parser.parse_args(arguments)


def _open_progress() -> Progress | None:
    """Return a function that shows the page on standard error; None if that is not a terminal."""
    if not sys.stderr.isatty():
        return None

    def report(page: int, pages: int) -> None:
        sys.stderr.write(f"\rpage {page} of {pages}" + ("\n" if page == pages else ""))

    return report


def _print_table(entities: Iterator[ParsedEntity]) -> None:
    table = Table("no.", "page", "kind", "section", "text")
    for entity in entities:
        table.add_row(
            str(entity.reading_order),
            str(entity.page or ""),
            entity.subtype,
            entity.section_title or "",
            entity.text,
            end_section=True,
        )
    Console().print(table)


def _print_json(entities: Iterator[ParsedEntity]) -> None:
    """Print one JSON object per entity and line."""
    for entity in entities:
        sys.stdout.write(json.dumps(_to_json(entity), ensure_ascii=False) + "\n")


def _to_json(entity: ParsedEntity) -> dict[str, Any]:
    return {
        "reading_order": entity.reading_order,
        "page": entity.page,
        "content_type": entity.content_type,
        "subtype": entity.subtype,
        "section_title": entity.section_title,
        "entity_id": entity.entity_id,
        "text": entity.text,
        "crop_bytes": len(entity.crop) if entity.crop else 0,
        "metadata": entity.to_metadata(),
    }


if __name__ == "__main__":
    sys.exit(main())
