"""Reader of a CSV file for an import: yields records with their line number and end offset.

The file is streamed: only one record is in memory. An error costs only its own line: an unclosed quote is
reported at the line where it opens, and reading resumes after that line.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.core.disk import HAS_LOCKS, try_lock
from holdfast.core.errors import InvalidRequest, RetryLater

MAX_LINE_BYTES: Final = 16 * 1024 * 1024
DELIMITERS: Final = (",", ";", "\t", "|")
UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, slots=True)
class Record:
    """One row. `fault` says why its cells cannot be trusted; `end` is the offset of the byte after it."""

    line: int
    cells: list[str]
    end: int
    fault: str | None = None


class CsvFile:
    """A CSV file opened and locked for one pass.

    `is_known` recognises column names, to find the delimiter.
    """

    def __init__(self, path: Path, encoding: str, is_known: Callable[[str], bool]) -> None:
        self.path, self.size = path, path.stat().st_size
        self._file = path.open("rb")
        self._digest = hashlib.sha256()
        try:
            _refuse_second_reader(self._file, path)
            self._lines = _LineReader(self._file, encoding)
            self._check_encoding(encoding)
            self.delimiter, self.header = self._read_header(is_known)
        except BaseException:
            self._file.close()
            raise

    def records(self) -> Iterator[Record]:
        """Yield the records after the header, without blank lines; one that is not valid CSV has a
        `fault`.
        """
        while True:
            self._lines.release_taken(self._digest.update)
            try:
                cells = next(self._open_reader())
            except StopIteration:
                return
            except csv.Error as error:
                yield self._build_broken_record(error)
                continue
            if cells:
                line = self._lines.number - len(self._lines.taken) + 1
                yield Record(line, cells, self._lines.offset, self._lines.fault)

    def digest(self) -> str:
        """Return the SHA-256 of everything up to the end of the last record."""
        self._lines.release_taken(self._digest.update)
        return self._digest.hexdigest()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> CsvFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open_reader(self) -> Iterator[list[str]]:
        """Return a CSV parser of the remaining lines."""
        return csv.reader(self._lines, delimiter=self.delimiter, strict=True)

    def _build_broken_record(self, error: csv.Error) -> Record:
        """Return the first line of an invalid record as a record with a fault; the other lines are read
        again.
        """
        text = self._lines.push_back_all_but_first()
        return Record(
            self._lines.number, [text.rstrip("\r\n")], self._lines.offset, f"The row is not CSV: {error}"
        )

    def _check_encoding(self, encoding: str) -> None:
        """Raise `InvalidRequest` for UTF-16; skip UTF-8's byte order mark."""
        start = self._file.peek(4) if hasattr(self._file, "peek") else b""
        if start.startswith(UTF16_MARKS):
            raise InvalidRequest(
                f"Invalid encoding of {self.path}: UTF-16. Save it as UTF-8, then import it."
            )
        if start.startswith(codecs.BOM_UTF8):
            self._file.seek(len(codecs.BOM_UTF8))
            self._lines.offset = len(codecs.BOM_UTF8)

    def _read_header(self, is_known: Callable[[str], bool]) -> tuple[str, list[str]]:
        """Return the delimiter that yields the most known columns in the first line that is not blank, and
        its columns.

        Raise `InvalidRequest` for an empty file.
        """
        for text in self._lines:
            if text.strip():
                break
        else:
            raise InvalidRequest(f"{self.path} is empty: expected a header line with the column names.")
        readings = [(each, _split_cells(text, each)) for each in DELIMITERS]
        return max(readings, key=lambda reading: sum(map(is_known, reading[1])))


class _LineReader:
    """The file's lines as text. Lines taken for a record are kept until the record is complete."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        self._file, self._encoding = file, encoding
        self._pushed_back: deque[bytes] = deque()
        self.taken: list[bytes] = []
        self.offset, self.number = 0, 0
        self.fault: str | None = None

    def __iter__(self) -> _LineReader:
        return self

    def __next__(self) -> str:
        raw = self._pushed_back.popleft() if self._pushed_back else self._file.readline(MAX_LINE_BYTES)
        if not raw:
            raise StopIteration
        self.taken.append(raw)
        self.offset += len(raw)
        self.number += 1
        return self._decode(raw)

    def release_taken(self, consume: Callable[[bytes], None]) -> None:
        """Pass the lines of the finished record to `consume`, and start the next record."""
        for raw in self.taken:
            consume(raw)
        self.taken, self.fault = [], None

    def push_back_all_but_first(self) -> str:
        """Return the first line of the record as text; the others are read again."""
        first, *others = self.taken
        self._pushed_back.extendleft(reversed(others))
        self.taken = [first]
        self.offset -= sum(map(len, others))
        self.number -= len(others)
        return self._decode(first)

    def _decode(self, raw: bytes) -> str:
        """Return the line as text. One in another encoding sets `fault` and is read as Latin-1."""
        try:
            return raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            self.fault = (
                f"The row is not {self._encoding}: byte {error.start + 1} of line {self.number} is invalid. "
                "Name the file's encoding, or save it as UTF-8"
            )
            return raw.decode("latin-1")


def _refuse_second_reader(file: BinaryIO, path: Path) -> None:
    """Lock the file, or raise `RetryLater`: two imports would overwrite each other's rejects and checkpoint.

    Closing the file releases the lock. On Windows and on file systems without locks the import continues.
    """
    try:
        is_free = not HAS_LOCKS or try_lock(file.fileno())
    except OSError:
        return
    if not is_free:
        raise RetryLater(
            f"Another import of {path} is running. Wait for it, and import the file again if it failed."
        )


def _split_cells(text: str, delimiter: str) -> list[str]:
    """Return the cells of one line; none if it is not valid CSV."""
    try:
        return next(csv.reader([text], delimiter=delimiter))
    except csv.Error:
        return []
