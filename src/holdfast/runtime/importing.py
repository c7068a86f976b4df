"""CSV into a table: each row becomes an entity and is put by its key, or is told in a file of rejects with a reason.

file → records (`csv_rows`) → entities (`Columns`) → batches of the import pattern. After each stretch of rows a
checkpoint beside the rejects says how far the table has them. An import that was killed reads the file again from
its start, so that rejects and duplicates are told as if nothing had happened, and writes from the checkpoint on.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from holdfast.errors import ConditionFailed, DeclarationError, InvalidRequest, SettingsError
from holdfast.limits import BATCH_WRITES_MAX
from holdfast.model.entity import Entity, declaration_of
from holdfast.model.writes import BatchPut, Put
from holdfast.operations import tables as requests
from holdfast.operations.values import Item
from holdfast.runtime.columns import Columns, RowRefused
from holdfast.runtime.csv_rows import CsvFile, Record
from holdfast.runtime.provisioning import prepare_tables
from holdfast.runtime.stores import Stores, together

# Rows between two checkpoints: a killed import puts at most so many of them again.
STRETCH_ROWS: Final = 1_000
WRITERS: Final = 8
REJECTS_SUFFIX: Final = ".rejects.csv"
CHECKPOINT_SUFFIX: Final = ".resume"
REJECT_COLUMNS: Final = ("line", "reason")

# Called with the bytes of the file that are done, and all of them.
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class Importer:
    """How rows of a CSV file become entities of one table.

    A column is found by the attribute's name, in any case and with any separators, or by an alias. `normalise` may
    change a row's cells before they are checked, and make `derived` attributes out of the others. `check` is asked
    before each stretch of rows whether the table may be written now, and raises where it may not.

    Rows are written in batches, by `put`; or one by one, by `put_each`, on a condition: where it does not hold, what
    the table has is kept, and counted. That is for rows that the system changes itself, and a file must not undo.
    """

    entity: type[Entity]
    put: Callable[[Sequence[Any]], BatchPut[Any]] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    normalise: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    derived: frozenset[str] = frozenset()
    check: Callable[[Stores], Awaitable[None]] | None = None
    put_each: Callable[[Any], Put[Any]] | None = None

    def __post_init__(self) -> None:
        if (self.put is None) == (self.put_each is None):
            raise DeclarationError(
                f"The importer of {self.entity.__name__} needs put, for batches, or put_each, for one row at a time."
            )


@dataclass(frozen=True)
class ImportReport:
    """What became of a file's rows. `resumed` counts those that an earlier run was done with.

    `kept` counts those for which the table has something newer, which this run has left as it is.
    """

    rows: int
    written: int
    kept: int
    rejected: int
    duplicates: int
    resumed: int
    ignored_columns: tuple[str, ...]
    rejects: Path | None


async def import_csv(
    stores: Stores,
    importer: Importer,
    path: Path,
    rejects: Path | None = None,
    *,
    restart: bool = False,
    place: str = "",
    encoding: str = "utf-8",
    progress: Progress = lambda done, total: None,
) -> ImportReport:
    """Imports a file. It may be repeated: rows are put by key. `place` tells stores of one name apart."""
    rejects = rejects or path.with_name(path.name + REJECTS_SUFFIX)
    if rejects.resolve() == path.resolve():
        raise SettingsError(f"{rejects} is the file to import: name another for the rejects.")
    columns = Columns(importer.entity, importer.aliases, importer.derived, importer.normalise)
    table = declaration_of(importer.entity).table
    await prepare_tables(stores, [table])
    into = f"{place} {stores.physical_name(table)}"
    checkpoint = Checkpoint.at(rejects.with_name(rejects.name + CHECKPOINT_SUFFIX), into)
    if restart or not await _is_held(stores, importer, checkpoint):
        checkpoint = checkpoint.anew()
    with _opened(path, encoding, columns) as source, Rejects(rejects, source.header) as refused:
        columns.match(source.header, path)
        run = _Import(stores, importer, columns, source, refused, checkpoint, progress)
        return await run.through()


def _opened(path: Path, encoding: str, columns: Columns) -> CsvFile:
    try:
        "".encode(encoding)
        return CsvFile(path, encoding, columns.is_known)
    except OSError as error:
        raise SettingsError(f"{path} cannot be read ({error.strerror}): name another file.") from error
    except LookupError as error:
        raise SettingsError(
            f"There is no encoding {encoding!r}: utf-8, cp1252 and latin-1 are some."
        ) from error


async def _is_held(stores: Stores, importer: Importer, checkpoint: Checkpoint) -> bool:
    """Whether the last row that the checkpoint speaks of is there: a table that was made anew has none of it."""
    if not checkpoint.key:
        return False
    table = stores.physical_name(declaration_of(importer.entity).table)
    found = await stores.tables.run(requests.GetItem(table, dict(checkpoint.key), consistent=True))
    return found.item is not None


@dataclass(frozen=True)
class Checkpoint:
    """How far the table has the file: the byte, what the file was up to there, and the last key written."""

    file: Path
    into: str
    offset: int = 0
    digest: str = ""
    key: Mapping[str, Any] = field(default_factory=dict)
    # Rows that the store itself refused, by line: reading them again would not tell.
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, file: Path, into: str) -> Checkpoint:
        """The one in that file, if it speaks of the same table; else the beginning."""
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            same = found.pop("into") == into
            return cls(file, into, **found) if same else cls(file, into)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls(file, into)

    def anew(self) -> Checkpoint:
        return Checkpoint(self.file, self.into)

    def save(self) -> None:
        """Whole or not at all: written beside, synced, then put in its place."""
        told = {name: getattr(self, name) for name in ("into", "offset", "digest", "key", "refused")}
        beside = self.file.with_name(self.file.name + ".new")
        try:
            with beside.open("w", encoding="utf-8") as file:
                json.dump(told, file)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.file)
        except OSError as error:
            raise SettingsError(
                f"How far the import is cannot be written to {self.file} ({error.strerror}): name a place for the "
                "rejects that can be written to, with --rejects."
            ) from error

    def remove(self) -> None:
        self.file.unlink(missing_ok=True)


class Rejects:
    """The file of rows that were refused: line, reason, and the row as it was. Made when there is one."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        # A mended file of rejects may be imported as it is: its own first columns are not repeated.
        self._own = {place for place, each in enumerate(header) if each in REJECT_COLUMNS}
        self.path, self._header = path, [each for each in header if each not in REJECT_COLUMNS]
        self._file: TextIO | None = None
        self.count = 0

    def add(self, record: Record, reason: str) -> None:
        if self._file is None:
            self._file = self._made()
            self._writer = csv.writer(self._file)
            self._writer.writerow([*REJECT_COLUMNS, *self._header])
        cells = (cell for place, cell in enumerate(record.cells) if record.fault or place not in self._own)
        self._writer.writerow([record.line, reason, *cells])
        self.count += 1

    def forget_earlier(self) -> None:
        """Removes the rejects of an earlier run, when this one has none. Another file of that name is left alone."""
        try:
            with self.path.open(encoding="utf-8") as file:
                is_ours = file.readline().startswith(",".join(REJECT_COLUMNS))
        except (OSError, UnicodeDecodeError):
            return
        if is_ours:
            self.path.unlink()

    def _made(self) -> TextIO:
        try:
            return self.path.open("w", encoding="utf-8", newline="")
        except OSError as error:
            raise SettingsError(
                f"The file of rejects {self.path} cannot be written ({error.strerror}): name another with --rejects."
            ) from error

    def __enter__(self) -> Rejects:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


class _Import:
    """One run through a file."""

    def __init__(
        self,
        stores: Stores,
        importer: Importer,
        columns: Columns,
        source: CsvFile,
        refused: Rejects,
        checkpoint: Checkpoint,
        progress: Progress,
    ) -> None:
        self.stores, self.importer, self.columns = stores, importer, columns
        self.source, self.refused, self.checkpoint, self.progress = source, refused, checkpoint, progress
        self._lines_of_keys: dict[bytes, int] = {}
        self._waiting: list[tuple[Record, Entity, Item]] = []
        self._rows = self._resumed = self._duplicates = self._kept = 0
        self._resume_from = checkpoint.offset
        self._is_same_file = not checkpoint.offset
        table = declaration_of(importer.entity).table
        self._key_names = (table.partition, table.sort)
        self._refused_by_store = dict(checkpoint.refused)

    async def through(self) -> ImportReport:
        end = 0
        for record in self.source.records():
            self._take(record)
            end = record.end
            self._check_same_file(end)
            if len(self._waiting) >= STRETCH_ROWS:
                await self._write(end)
        if not self._is_same_file:
            raise self._another_file()
        await self._write(end)
        self.progress(self.source.size, self.source.size)
        self.checkpoint.remove()
        if not self.refused.count:
            self.refused.forget_earlier()
        return self._report()

    def _take(self, record: Record) -> None:
        self._rows += 1
        if self._rows % STRETCH_ROWS == 0:
            self.progress(record.end, self.source.size)
        try:
            entity, item = self.columns.read(record)
            self._check_first_of_its_key(record, item)
            if reason := self._refused_by_store.get(str(record.line)):
                raise RowRefused(reason)
        except RowRefused as refusal:
            self.refused.add(record, str(refusal))
            return
        if record.end <= self._resume_from:
            self._resumed += 1
        else:
            self._waiting.append((record, entity, item))

    def _check_first_of_its_key(self, record: Record, item: Item) -> None:
        key = declaration_of(self.importer.entity).key_of(item)
        told = hashlib.blake2b(repr(sorted(key.items())).encode(), digest_size=16).digest()
        first = self._lines_of_keys.setdefault(told, record.line)
        if first != record.line:
            self._duplicates += 1
            names = " and ".join(f"{name} {value!r}" for name, value in key.items())
            raise RowRefused(f"The row has the {names} of line {first}: a key may stand only once in a file")

    async def _write(self, end: int) -> None:
        """The rows that wait, several batches at once; when all are in the table, the checkpoint says so."""
        if not self._waiting:
            return
        if self.importer.check is not None:
            await self.importer.check(self.stores)
        batches = iter([self._waiting[at : at + BATCH_WRITES_MAX] for at in _steps(len(self._waiting))])

        async def writer() -> None:
            for batch in batches:
                await self._put(batch)

        await together(writer() for _ in range(WRITERS))
        self._save_checkpoint(end)
        self._waiting = []
        self.progress(end, self.source.size)

    def _save_checkpoint(self, end: int) -> None:
        record, _, item = self._waiting[-1]
        key = {name: value for name, value in item.items() if name in self._key_names}
        is_kept = str(record.line) not in self._refused_by_store
        if not all(isinstance(value, str | int) for value in key.values()):
            key = {}  # bytes cannot be told in JSON: such an import begins again
        self.checkpoint = replace(
            self.checkpoint,
            offset=end,
            digest=self.source.digest(),
            key=key if is_kept else self.checkpoint.key,
            refused=self._refused_by_store,
        )
        self.checkpoint.save()

    async def _put(self, batch: Sequence[tuple[Record, Entity, Item]]) -> None:
        if self.importer.put is None and len(batch) > 1:
            for one in batch:
                await self._put([one])
            return
        try:
            await self._put_or_keep([entity for _, entity, _ in batch])
        except InvalidRequest as error:
            if len(batch) == 1:
                record = batch[0][0]
                self._refused_by_store[str(record.line)] = reason = (
                    f"The store refused the row: {error.message}"
                )
                self.refused.add(record, reason)
                return
            for one in batch:
                await self._put([one])

    async def _put_or_keep(self, rows: Sequence[Entity]) -> None:
        if self.importer.put is not None:
            await self.stores.run(self.importer.put(rows))
        elif self.importer.put_each is not None:
            try:
                await self.stores.run(self.importer.put_each(rows[0]))
            except ConditionFailed:
                self._kept += 1

    def _check_same_file(self, end: int) -> None:
        """At the checkpoint, before anything is written: whether the file up to there is the one that was imported."""
        if self._is_same_file or end < self._resume_from:
            return
        if end != self._resume_from or self.source.digest() != self.checkpoint.digest:
            raise self._another_file()
        self._is_same_file = True

    def _another_file(self) -> InvalidRequest:
        return InvalidRequest(
            f"{self.source.path} has changed since its import was interrupted, so what is done of it cannot be told: "
            "import it from its start with --restart. Rows are put by key, so none is doubled."
        )

    def _report(self) -> ImportReport:
        return ImportReport(
            rows=self._rows,
            written=self._rows - self.refused.count - self._kept,
            kept=self._kept,
            rejected=self.refused.count,
            duplicates=self._duplicates,
            resumed=self._resumed,
            ignored_columns=tuple(each for each in self.columns.ignored if each not in REJECT_COLUMNS),
            rejects=self.refused.path if self.refused.count else None,
        )


def _steps(count: int) -> Iterator[int]:
    yield from range(0, count, BATCH_WRITES_MAX)
