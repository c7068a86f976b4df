"""Isolation of parsers: runs `parser_process` on an untrusted document with limited memory and CPU time.

    body → a process with limited memory and CPU time → frames → entities

A page of five kilobytes can take hours and all memory to parse. The operating system then kills the process,
the document is refused with a message, and the caller continues. The process does not see the caller's
environment, and ends with the iteration.
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

from .frames import OUT_OF_MEMORY_EXIT_CODE, ParseOrder, decode_entity, decode_refusal
from .ports import DocumentDamaged, DocumentRefused, DocumentTooLarge, ParsedEntity, Progress

# A crop of four million bytes in base64, and the longest text with every letter escaped.
MAX_FRAME_BYTES: Final = 16_000_000

# PDFium ends its process with one of these signals when it runs out of memory.
_ABORT_EXIT_CODES: Final = (-signal.SIGABRT, -signal.SIGTRAP, -signal.SIGILL)
_SIMPLIFY_REMEDY: Final = "Simplify it, or divide it into several documents."


def parse_in_subprocess(order: ParseOrder, body: bytes, progress: Progress | None) -> Iterator[ParsedEntity]:
    """Parse the document in a subprocess and yield its entities; call `progress` after each page.

    Raise `DocumentRefused` if the parser refuses it, exceeds a limit or crashes.
    """
    page = 0
    with _start_process(order, body) as process:
        for frame in _read_frames(process, order.file_name):
            if "entity" in frame:
                yield decode_entity(frame)
            elif "page" in frame:
                page = frame["page"]
                if progress:
                    progress(page, frame["pages"])
            elif "refused" in frame:
                raise decode_refusal(frame, order.file_name)
            else:
                return
        raise _build_refusal(process.wait(), order.file_name, page)


@contextmanager
def _start_process(order: ParseOrder, body: bytes) -> Iterator[subprocess.Popen[bytes]]:
    """Start the parser process with order and document as its input; kill it after the block."""
    with tempfile.TemporaryFile() as source:
        source.write(json.dumps(order.to_json()).encode() + b"\n" + body)
        source.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-m", "tripcortex.documents.parser_process"],
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
        _get_stdout(process).close()


def _read_frames(process: subprocess.Popen[bytes], file_name: str) -> Iterator[dict[str, Any]]:
    """Yield the frames. A process that ended in the middle of a line ends the iteration.

    Raise `DocumentTooLarge` for a frame above 16 million bytes.
    """
    while line := _get_stdout(process).readline(MAX_FRAME_BYTES):
        if not line.endswith(b"\n"):
            if len(line) < MAX_FRAME_BYTES:
                return
            raise DocumentTooLarge(
                file_name, f"a part of it takes more than {MAX_FRAME_BYTES:,} bytes", _SIMPLIFY_REMEDY
            )
        yield json.loads(line)


def _get_stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _build_refusal(code: int, file_name: str, page: int) -> DocumentRefused:
    """Return the refusal for a process that ended with exit code `code` before the end of the document.

    `page` is the last finished page.
    """
    where = f"after its page {page:,}" if page else "at its beginning"
    if code == -signal.SIGXCPU:
        return DocumentTooLarge(
            file_name, f"parsing it takes more time than the limit ({where})", _SIMPLIFY_REMEDY
        )
    if code == OUT_OF_MEMORY_EXIT_CODE or code in _ABORT_EXIT_CODES:
        return DocumentTooLarge(
            file_name, f"parsing it takes more memory than the limit ({where})", _SIMPLIFY_REMEDY
        )
    return DocumentDamaged(
        file_name,
        f"its parser ended unexpectedly ({where})",
        "Open it, save a new copy, and upload that.",
    )
