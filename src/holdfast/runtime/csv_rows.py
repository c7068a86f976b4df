"""A CSV file as records, each with its line and the byte it ends at: what an import reads.

Streaming: no more than one record is in memory. What is broken costs its own line: a quote that never closes is
told at the line it opens, and reading goes on behind that line.
"""

from __future__ import annotations

import codecs
import csv
import fcntl
import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.errors import InvalidRequest, RetryLater

LINE_BYTES_MAX: Final = 16 * 1024 * 1024
DELIMITERS: Final = (",", ";", "\t", "|")
WIDE_ENCODINGS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Record:
    """One row. `fault` says why its cells cannot be trusted; `end` is the offset of the byte behind it."""

    line: int
    cells: list[str]
    end: int
    fault: str | None = None


class CsvFile:
    """Opened for reading once, from the header on. `is_known` says which column names mean something."""

    def __init__(self, path: Path, encoding: str, is_known: Callable[[str], bool]) -> None:
        self.path, self.size = path, path.stat().st_size
        self._file = path.open("rb")
        self._digest = hashlib.sha256()
        try:
            _refuse_second_reader(self._file, path)
            self._lines = _Lines(self._file, encoding)
            self._check_encoding(encoding)
            self.delimiter, self.header = self._read_header(is_known)
        except BaseException:
            self._file.close()
            raise

    def records(self) -> Iterator[Record]:
        while True:
            self._lines.keep(self._digest.update)
            try:
                cells = next(self._reader())
            except StopIteration:
                return
            except csv.Error as error:
                yield self._broken(error)
                continue
            if cells:
                line = self._lines.number - len(self._lines.taken) + 1
                yield Record(line, cells, self._lines.offset, self._lines.fault)

    def digest(self) -> str:
        """Of everything up to the end of the last record."""
        self._lines.keep(self._digest.update)
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reader(self) -> Iterator[list[str]]:
        return csv.reader(self._lines, delimiter=self.delimiter, strict=True)

    def _broken(self, error: csv.Error) -> Record:
        text = self._lines.give_back_all_but_one()
        return Record(
            self._lines.number, [text.rstrip("\r\n")], self._lines.offset, f"The row is not CSV: {error}"
        )

    def _check_encoding(self, encoding: str) -> None:
        start = self._file.peek(4) if hasattr(self._file, "peek") else b""
        if start.startswith(WIDE_ENCODINGS):
            raise InvalidRequest(f"{self.path} is in UTF-16: save it as UTF-8, then import it.")
        if start.startswith(codecs.BOM_UTF8):
            self._file.seek(len(codecs.BOM_UTF8))
            self._lines.offset = len(codecs.BOM_UTF8)

    def _read_header(self, is_known: Callable[[str], bool]) -> tuple[str, list[str]]:
        """The first line that is not blank, cut by whichever delimiter finds the most columns we know."""
        for text in self._lines:
            if text.strip():
                break
        else:
            raise InvalidRequest(f"{self.path} is empty: its first line must name the columns.")
        readings = [(each, _cells(text, each)) for each in DELIMITERS]
        return max(readings, key=lambda reading: sum(map(is_known, reading[1])))


class _Lines:
    """The file's lines as text. Those taken for a record are remembered until it is known to be whole."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._waiting: deque[bytes] = deque()
        self.taken: list[bytes] = []
        self.offset, self.number = 0, 0
        self.fault: str | None = None

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        raw = self._waiting.popleft() if self._waiting else self._file.readline(LINE_BYTES_MAX)
        if not raw:
            raise StopIteration
        self.taken.append(raw)
        self.offset += len(raw)
        self.number += 1
        return self._text(raw)

    def keep(self, told: Callable[[bytes], None]) -> None:
        """The record is done with: what follows is another one."""
        for raw in self.taken:
            told(raw)
        self.taken, self.fault = [], None

    def give_back_all_but_one(self) -> str:
        first, *others = self.taken
        self._waiting.extendleft(reversed(others))
        self.taken = [first]
        self.offset -= sum(map(len, others))
        self.number -= len(others)
        return self._text(first)

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            self.fault = (
                f"The row is not {self._encoding}: byte {error.start + 1} of line {self.number} cannot be read. Say how the "
                "file is written, or save it as UTF-8"
            )
            return raw.decode("latin-1")


def _refuse_second_reader(file: BinaryIO, path: Path) -> None:
    """Two imports of one file would write over each other's rejects, and over how far they are.

    The lock ends with the file that is opened. A place that knows no locks is believed.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise RetryLater(
            f"Another import of {path} is running: let it end, and import the file again if it failed."
        ) from error
    except OSError:
        pass


def _cells(text: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], delimiter=delimiter))
    except csv.Error:
        return []
