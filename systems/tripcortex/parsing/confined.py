"""`python -m tripcortex.parsing.confined`: reads one document, in a process that can spend only so much; `confinement` starts it.

On standard input comes a line that says what to read and how (`Order`), then the document. On standard output goes one line of
JSON after another (`frames`), the last one only when all is read. Memory and time are bounded by the operating system, because
a library in C neither counts what a page makes it spend nor lets itself be interrupted.
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

from .frames import END, OUT_OF_MEMORY, Order, entity_frame, failure_frame, page_frame, refusal_frame
from .markdown import MarkdownReading
from .pdf_reading import PdfReading
from .ports import DocumentRefused, Parser, Progress

# The interpreter with what it imports takes 110 million; a scanned page in colour at 600 dots per inch some 250 million.
MEMORY_BYTES: Final = 480_000_000
# The document is held as it came, and as PDFium or the decoder of text has it.
MEMORY_BYTES_EACH: Final = 3
# Time of a processor, beside the document's own: a page takes some 0.03 s, a million bytes of Markdown some 3 s.
SECONDS_EACH_PAGE: Final = 0.2
SECONDS_EACH_MILLION_BYTES_OF_TEXT: Final = 10


def main() -> None:
    out = sys.stdout.buffer
    order = Order.of(json.loads(sys.stdin.buffer.readline()))
    body = sys.stdin.buffer.read()
    _confine(MEMORY_BYTES + MEMORY_BYTES_EACH * len(body))
    _allow(order.seconds)
    try:
        for frame in _frames(order, body, lambda page, pages: _send(out, page_frame(page, pages))):
            _send(out, frame)
        out.flush()
    except MemoryError:
        os._exit(OUT_OF_MEMORY)


def _confine(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _allow(seconds: float) -> None:
    """From now on; beyond that the operating system ends this process."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    wanted = math.ceil(time.process_time() + seconds)
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


def _frames(order: Order, body: bytes, progress: Progress) -> Iterator[dict[str, Any]]:
    try:
        for entity in READINGS[order.format](order, body).parse(body, order.file_name, progress=progress):
            yield entity_frame(entity)
        yield END
    except DocumentRefused as error:
        yield refusal_frame(error)
    except MemoryError:
        raise
    except Exception as error:
        # Its words stay here: they may quote the document.
        yield failure_frame(error)


def _send(out: BinaryIO, frame: dict[str, Any]) -> None:
    out.write(json.dumps(frame).encode() + b"\n")


def _pdf(order: Order, body: bytes) -> Parser:
    return PdfReading(
        pages_max=order.pages_max, counted=lambda pages: _allow(order.seconds + SECONDS_EACH_PAGE * pages)
    )


def _markdown(order: Order, body: bytes) -> Parser:
    _allow(order.seconds + SECONDS_EACH_MILLION_BYTES_OF_TEXT * len(body) / 1_000_000)
    return MarkdownReading()


READINGS: Final[dict[str, Callable[[Order, bytes], Parser]]] = {"pdf": _pdf, "markdown": _markdown}


if __name__ == "__main__":
    main()
