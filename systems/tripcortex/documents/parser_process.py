"""The subprocess that parses one document: limits its own memory and CPU time, then writes frames.

`isolation` starts it as `python -m tripcortex.documents.parser_process`. Standard input carries one line with
the `ParseOrder`, then the document. Standard output carries one line of JSON per frame (`frames`); the end
frame comes only after the whole document. The operating system enforces the limits, because a C library
neither counts the memory that a page needs nor can be interrupted.
"""

from __future__ import annotations

import json
import math
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

from .frames import (
    END,
    OUT_OF_MEMORY_EXIT_CODE,
    ParseOrder,
    encode_entity,
    encode_failure,
    encode_page,
    encode_refusal,
)
from .markdown import MarkdownReader
from .pdf.reader import PdfReader
from .ports import DocumentRefused, Parser, Progress

# The interpreter with its imports takes 110 million bytes; a scanned page in colour at 600 dpi about 250
# million.
MEMORY_BYTES: Final = 480_000_000
# The process holds the document's bytes and the copies of PDFium or of the text decoder.
MEMORY_BYTES_PER_DOCUMENT_BYTE: Final = 3
# CPU time in addition to the document's: a page takes about 0.03 s, a million bytes of Markdown about 3 s.
SECONDS_PER_PAGE: Final = 0.2
SECONDS_PER_MILLION_TEXT_BYTES: Final = 10


def main() -> None:
    """Parse the document on standard input and write frames to standard output.

    Exit with 77 if there is not enough memory.
    """
    out = sys.stdout.buffer
    order = ParseOrder.from_json(json.loads(sys.stdin.buffer.readline()))
    body = sys.stdin.buffer.read()
    _limit_memory(MEMORY_BYTES + MEMORY_BYTES_PER_DOCUMENT_BYTE * len(body))
    _limit_cpu_time(order.seconds)
    try:
        for frame in _parse_to_frames(order, body, lambda page, pages: _send(out, encode_page(page, pages))):
            _send(out, frame)
        out.flush()
    except MemoryError:
        os._exit(OUT_OF_MEMORY_EXIT_CODE)


def _limit_memory(memory_bytes: int) -> None:
    """Limit the address space of this process, and disable core dumps.

    macOS refuses such a limit: there only the CPU time is limited.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "darwin":
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _limit_cpu_time(seconds: float) -> None:
    """Limit the CPU time from now on; the operating system kills the process that exceeds it."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = math.ceil(time.process_time() + seconds)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, hard))


def _parse_to_frames(order: ParseOrder, body: bytes, progress: Progress) -> Iterator[dict[str, Any]]:
    """Yield the frames of the document: its entities and the end frame, or a refusal."""
    try:
        for entity in READERS[order.format](order, body).parse(body, order.file_name, progress=progress):
            yield encode_entity(entity)
        yield END
    except DocumentRefused as error:
        yield encode_refusal(error)
    except MemoryError:
        raise
    except Exception as error:
        # The error's message is not sent: it may quote the document.
        yield encode_failure(error)


def _send(out: BinaryIO, frame: dict[str, Any]) -> None:
    """Write a frame as one line of JSON."""
    out.write(json.dumps(frame).encode() + b"\n")


def _open_pdf(order: ParseOrder, body: bytes) -> Parser:
    """Return a PDF reader that allows 0.2 seconds of CPU time more per page once it knows their number."""
    return PdfReader(
        pages_max=order.pages_max,
        on_page_count=lambda pages: _limit_cpu_time(order.seconds + SECONDS_PER_PAGE * pages),
    )


def _open_markdown(order: ParseOrder, body: bytes) -> Parser:
    """Allow more CPU time for a longer text, and return a Markdown reader."""
    _limit_cpu_time(order.seconds + SECONDS_PER_MILLION_TEXT_BYTES * len(body) / 1_000_000)
    return MarkdownReader()


READERS: Final[dict[str, Callable[[ParseOrder, bytes], Parser]]] = {
    "pdf": _open_pdf,
    "markdown": _open_markdown,
}


if __name__ == "__main__":
    main()
