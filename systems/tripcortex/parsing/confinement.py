"""A document of somebody else, read in a process of its own (`confined`) that the operating system keeps within bounds.

    body → a process with bounded memory and time → frames → entities here, one after the other

Five kilobytes can be a page that takes hours and all memory to read; then that process is ended and the document refused in
words, and whoever asked goes on. The process sees nothing of this one's environment, and ends with the iteration.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, Final

from .frames import OUT_OF_MEMORY, Order, entity_of, refusal_of
from .ports import DocumentDamaged, DocumentRefused, DocumentTooLarge, ParsedEntity, Progress

# A crop of four million bytes in base 64, and the longest text with every letter escaped.
FRAME_BYTES_MAX: Final = 16_000_000

# PDFium ends its process in one of these ways when it is given no more memory.
_ABORTED: Final = (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL)
_SIMPLER: Final = "Save it simpler, or upload it in several documents."


def read_confined(order: Order, body: bytes, progress: Progress | None) -> Iterator[ParsedEntity]:
    page = 0
    with _process(order, body) as process:
        for frame in _frames(process, order.file_name):
            if "entity" in frame:
                yield entity_of(frame)
            elif "page" in frame:
                page = frame["page"]
                if progress:
                    progress(page, frame["pages"])
            elif "refused" in frame:
                raise refusal_of(frame, order.file_name)
            else:
                return
        raise _ended(process.wait(), order.file_name, page)


@contextmanager
def _process(order: Order, body: bytes) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as source:
        source.write(json.dumps(order.as_json()).encode() + b"\n" + body)
        source.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", "tripcortex.parsing.confined"],
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        _stdout(process).close()


def _frames(process: subprocess.Popen[bytes], file_name: str) -> Iterator[dict[str, Any]]:
    while line := _stdout(process).readline(FRAME_BYTES_MAX):
        if not line.endswith(b"\n"):
            if len(line) < FRAME_BYTES_MAX:
                return
            raise DocumentTooLarge(
                file_name, f"a part of it takes more than {FRAME_BYTES_MAX:,} bytes", _SIMPLER
            )
        yield json.loads(line)


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _ended(code: int, file_name: str, page: int) -> DocumentRefused:
    """The process has not come to the end of the document; `page` is the last one that it has read."""
    where = f"after its page {page:,}" if page else "at its beginning"
    if code == -signal.SIGXCPU:
        return DocumentTooLarge(
            file_name, f"reading it takes more time than a document is given ({where})", _SIMPLER
        )
    if code == OUT_OF_MEMORY or code in _ABORTED:
        return DocumentTooLarge(
            file_name, f"reading it takes more memory than a document is given ({where})", _SIMPLER
        )
    return DocumentDamaged(
        file_name,
        f"its parser came to a sudden end ({where})",
        "Open it, save it anew, and upload that.",
    )
