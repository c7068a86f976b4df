"""`import_csv`: puts each row of a CSV file into a table by its key, or writes it to a rejects file.

file → records (`CsvFile`) → entities (`ColumnMapping`) → batches of the import pattern. After every thousand
rows a checkpoint file next to the rejects records how much is in the table. An interrupted import reads the
file again from its start, so that rejects and duplicates are reported as in one run, and writes from the
checkpoint on.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TextIO, TypeAlias

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.disk import open_private, sync
from holdfast.core.errors import ConditionFailed, DeclarationError, InvalidRequest, SettingsError
from holdfast.core.limits import MAX_BATCH_WRITES
from holdfast.model.entities.entity import Entity, get_declaration
from holdfast.model.entities.writes import BatchPut, Put
from holdfast.operations import tables as requests
from holdfast.operations.values import Item
from holdfast.runtime.csv_io.columns import ColumnMapping, RowRejected
from holdfast.runtime.csv_io.records import CsvFile, Record
from holdfast.runtime.stores import Stores
from holdfast.runtime.table_provisioner import provision_tables

# Rows between two checkpoints: a killed import writes at most this many again.
CHECKPOINT_ROWS: Final = 1_000
CONCURRENT_WRITERS: Final = 8
REJECTS_SUFFIX: Final = ".rejects.csv"
CHECKPOINT_SUFFIX: Final = ".resume"
REJECT_COLUMNS: Final = ("line", "reason")

# Called with the bytes of the file that are done, and the total.
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True)
class Importer:
    """How rows of a CSV file become entities of one table.

    A column is matched by the attribute's name, ignoring case and separators, or by an alias. `normalise` may
    change a row's cells before validation, and compute `derived` attributes from others. `check` runs before
    each thousand rows and raises if the table must not be written now.

    Rows are written in batches by `put`, or one by one by `put_each` with a condition. If the condition
    fails, the table's item is kept and counted: use that for rows that the system changes itself and a file
    must not overwrite.
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
                f"Invalid importer of {self.entity.__name__}: expected either put (batches) or put_each (one "
                "row at a time)."
            )


@dataclass(frozen=True)
class ImportReport:
    """The outcome of an import. `resumed` counts rows that an earlier run wrote.

    `kept` counts rows for which the table has a newer item, which this run left unchanged.
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
    location: str = "",
    encoding: str = "utf-8",
    progress: Progress = lambda done, total: None,
) -> ImportReport:
    """Import a file into the importer's table, created if missing, and return the counts.

    Repeating it is safe. An interrupted import continues after its last checkpoint, unless `restart`.
    `rejects` is the file for rejected rows; `location` distinguishes stores with the same table names. Raises
    `SettingsError` for files that cannot be read or written, `InvalidRequest` for an invalid header or a file
    that changed since the interruption.
    """
    rejects = rejects or path.with_name(path.name + REJECTS_SUFFIX)
    if rejects.resolve() == path.resolve():
        raise SettingsError(f"Invalid rejects file {rejects}: it is the file to import. Choose another.")
    columns = ColumnMapping(importer.entity, importer.aliases, importer.derived, importer.normalise)
    table = get_declaration(importer.entity).table
    await provision_tables(stores, [table])
    into = f"{location} {stores.physical_name(table)}"
    checkpoint = Checkpoint.load(rejects.with_name(rejects.name + CHECKPOINT_SUFFIX), into)
    if restart or not await _is_in_table(stores, importer, checkpoint):
        checkpoint = checkpoint.reset()
    with _open_csv(path, encoding, columns) as source, Rejects(rejects, source.header) as refused:
        columns.match(source.header, path)
        run = _ImportRun(stores, importer, columns, source, refused, checkpoint, progress)
        return await run.run()


def _open_csv(path: Path, encoding: str, columns: ColumnMapping) -> CsvFile:
    """Open the file; raise `SettingsError` if it cannot be read or the encoding is unknown."""
    try:
        "".encode(encoding)
        return CsvFile(path, encoding, columns.is_known)
    except OSError as error:
        raise SettingsError(f"Reading {path} failed ({error.strerror}): choose another file.") from error
    except LookupError as error:
        raise SettingsError(
            f"Unknown encoding {encoding!r}: expected one such as utf-8, cp1252 or latin-1."
        ) from error


async def _is_in_table(stores: Stores, importer: Importer, checkpoint: Checkpoint) -> bool:
    """Return True if the checkpoint's last row is in the table: a table that was created again lacks it."""
    if not checkpoint.key:
        return False
    table = stores.physical_name(get_declaration(importer.entity).table)
    found = await stores.tables.run(requests.GetItem(table, dict(checkpoint.key), consistent=True))
    return found.item is not None


@dataclass(frozen=True)
class Checkpoint:
    """The progress of an import: the offset in the file, the digest up to there, and the last key written."""

    file: Path
    into: str
    offset: int = 0
    digest: str = ""
    key: Mapping[str, Any] = field(default_factory=dict)
    # Rows that the store refused, by line: parsing them again would not show it.
    refused: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path, into: str) -> Checkpoint:
        """Load the checkpoint from its file if it is for the same table; otherwise return an empty one."""
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            same = found.pop("into") == into
            return cls(file, into, **found) if same else cls(file, into)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return cls(file, into)

    def reset(self) -> Checkpoint:
        """Return an empty checkpoint for the same file and table."""
        return Checkpoint(self.file, self.into)

    def save(self) -> None:
        """Write the checkpoint atomically: to a temporary file, synced, then renamed.

        Raise `SettingsError` if that fails.
        """
        state = {name: getattr(self, name) for name in ("into", "offset", "digest", "key", "refused")}
        temporary = self.file.with_name(self.file.name + ".new")
        try:
            with open(temporary, "w", encoding="utf-8", opener=open_private) as file:
                json.dump(state, file)
                file.flush()
                sync(file.fileno())
            temporary.replace(self.file)
        except OSError as error:
            raise SettingsError(
                f"Writing the import checkpoint {self.file} failed ({error.strerror}): choose a writable "
                "path for the rejects with --rejects."
            ) from error

    def remove(self) -> None:
        """Delete the checkpoint's file, if there is one."""
        self.file.unlink(missing_ok=True)


class Rejects:
    """The file of rejected rows: line, reason, and the row unchanged. It is created with the first one."""

    def __init__(self, path: Path, header: Sequence[str]) -> None:
        # A corrected rejects file may be imported as it is: its own first columns are not repeated.
        self._own_columns = {place for place, each in enumerate(header) if each in REJECT_COLUMNS}
        self.path, self._header = path, [each for each in header if each not in REJECT_COLUMNS]
        self._file: TextIO | None = None
        self.count = 0

    def add(self, record: Record, reason: str) -> None:
        """Write the row with its line and the reason; the first one creates the file with its header."""
        if self._file is None:
            self._file = self._open_file()
            self._writer = csv.writer(self._file)
            self._writer.writerow([*REJECT_COLUMNS, *self._header])
        cells = (
            cell for place, cell in enumerate(record.cells) if record.fault or place not in self._own_columns
        )
        self._writer.writerow([record.line, reason, *cells])
        self.count += 1

    def remove_stale_file(self) -> None:
        """Remove the rejects file of an earlier run. Any other file of that name is kept."""
        try:
            with self.path.open(encoding="utf-8") as file:
                is_ours = file.readline().startswith(",".join(REJECT_COLUMNS))
        except (OSError, UnicodeDecodeError):
            return
        if is_ours:
            self.path.unlink()

    def _open_file(self) -> TextIO:
        """Create the file; raise `SettingsError` if that fails."""
        try:
            return open(self.path, "w", encoding="utf-8", newline="", opener=open_private)
        except OSError as error:
            raise SettingsError(
                f"Writing the rejects file {self.path} failed ({error.strerror}): choose another with "
                "--rejects."
            ) from error

    def __enter__(self) -> Rejects:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


class _ImportRun:
    """One pass through a file."""

    def __init__(
        self,
        stores: Stores,
        importer: Importer,
        columns: ColumnMapping,
        source: CsvFile,
        rejects: Rejects,
        checkpoint: Checkpoint,
        progress: Progress,
    ) -> None:
        self.stores, self.importer, self.columns = stores, importer, columns
        self.source, self.rejects, self.checkpoint, self.progress = source, rejects, checkpoint, progress
        self._first_lines: dict[bytes, int] = {}
        self._pending: list[tuple[Record, Entity, Item]] = []
        self._rows = self._resumed = self._duplicates = self._kept = 0
        self._resume_from = checkpoint.offset
        self._is_same_file = not checkpoint.offset
        table = get_declaration(importer.entity).table
        self._key_names = (table.partition, table.sort)
        self._refused_by_store = dict(checkpoint.refused)

    async def run(self) -> ImportReport:
        """Read all records, write them in groups of a thousand, remove the checkpoint, and return the counts.

        Raise `InvalidRequest` if the file changed since the checkpoint.
        """
        end = 0
        for record in self.source.records():
            self._read_record(record)
            end = record.end
            self._check_same_file(end)
            if len(self._pending) >= CHECKPOINT_ROWS:
                await self._write_pending(end)
        if not self._is_same_file:
            raise self._build_changed_file_error()
        await self._write_pending(end)
        self.progress(self.source.size, self.source.size)
        self.checkpoint.remove()
        if not self.rejects.count:
            self.rejects.remove_stale_file()
        return self._build_report()

    def _read_record(self, record: Record) -> None:
        """Count the record, then reject it, skip it if an earlier run wrote it, or add it to the pending
        rows.
        """
        self._rows += 1
        if self._rows % CHECKPOINT_ROWS == 0:
            self.progress(record.end, self.source.size)
        try:
            entity, item = self.columns.read(record)
            self._check_duplicate_key(record, item)
            if reason := self._refused_by_store.get(str(record.line)):
                raise RowRejected(reason)
        except RowRejected as refusal:
            self.rejects.add(record, str(refusal))
            return
        if record.end <= self._resume_from:
            self._resumed += 1
        else:
            self._pending.append((record, entity, item))

    def _check_duplicate_key(self, record: Record, item: Item) -> None:
        """Raise `RowRejected` if an earlier line of the file has the same key."""
        key = get_declaration(self.importer.entity).extract_key(item)
        digest = hashlib.blake2b(repr(sorted(key.items())).encode(), digest_size=16).digest()
        first = self._first_lines.setdefault(digest, record.line)
        if first != record.line:
            self._duplicates += 1
            names = " and ".join(f"{name} {value!r}" for name, value in key.items())
            raise RowRejected(
                f"The row repeats the key of line {first}: {names}. A key may occur once per file"
            )

    async def _write_pending(self, end: int) -> None:
        """Write the pending rows, several batches concurrently, then save the checkpoint.

        `end` is the offset after them.
        """
        if not self._pending:
            return
        if self.importer.check is not None:
            await self.importer.check(self.stores)
        batches = iter(
            [self._pending[at : at + MAX_BATCH_WRITES] for at in _batch_starts(len(self._pending))]
        )

        async def writer() -> None:
            for batch in batches:
                await self._put_batch(batch)

        await gather_or_cancel(writer() for _ in range(CONCURRENT_WRITERS))
        self._save_checkpoint(end)
        self._pending = []
        self.progress(end, self.source.size)

    def _save_checkpoint(self, end: int) -> None:
        """Save the offset, the digest up to there, and the last key written."""
        record, _, item = self._pending[-1]
        key = {name: value for name, value in item.items() if name in self._key_names}
        is_kept = str(record.line) not in self._refused_by_store
        if not all(isinstance(value, str | int) for value in key.values()):
            key = {}  # JSON has no bytes: such an import starts again from the beginning
        self.checkpoint = replace(
            self.checkpoint,
            offset=end,
            digest=self.source.digest(),
            key=key if is_kept else self.checkpoint.key,
            refused=self._refused_by_store,
        )
        self.checkpoint.save()

    async def _put_batch(self, batch: Sequence[tuple[Record, Entity, Item]]) -> None:
        """Write the batch; if the store refuses it, write row by row and reject the refused ones."""
        if self.importer.put is None and len(batch) > 1:
            for one in batch:
                await self._put_batch([one])
            return
        try:
            await self._put_or_keep([entity for _, entity, _ in batch])
        except InvalidRequest as error:
            if len(batch) == 1:
                record = batch[0][0]
                self._refused_by_store[str(record.line)] = reason = (
                    f"The store refused the row: {error.message}"
                )
                self.rejects.add(record, reason)
                return
            for one in batch:
                await self._put_batch([one])

    async def _put_or_keep(self, rows: Sequence[Entity]) -> None:
        """Write the rows, or one row with a condition; count it as kept if the condition fails."""
        if self.importer.put is not None:
            await self.stores.run(self.importer.put(rows))
        elif self.importer.put_each is not None:
            try:
                await self.stores.run(self.importer.put_each(rows[0]))
            except ConditionFailed:
                self._kept += 1

    def _check_same_file(self, end: int) -> None:
        """At the checkpoint, before any write, raise `InvalidRequest` if the file up to there has changed."""
        if self._is_same_file or end < self._resume_from:
            return
        if end != self._resume_from or self.source.digest() != self.checkpoint.digest:
            raise self._build_changed_file_error()
        self._is_same_file = True

    def _build_changed_file_error(self) -> InvalidRequest:
        return InvalidRequest(
            f"{self.source.path} has changed since its import was interrupted, so the checkpoint does not "
            "apply. Import it from the start with --restart; rows are put by key, so none is duplicated."
        )

    def _build_report(self) -> ImportReport:
        """Return the counts of this run."""
        return ImportReport(
            rows=self._rows,
            written=self._rows - self.rejects.count - self._kept,
            kept=self._kept,
            rejected=self.rejects.count,
            duplicates=self._duplicates,
            resumed=self._resumed,
            ignored_columns=tuple(each for each in self.columns.ignored if each not in REJECT_COLUMNS),
            rejects=self.rejects.path if self.rejects.count else None,
        )


def _batch_starts(count: int) -> Iterator[int]:
    """Yield the index of the first row of each batch."""
    yield from range(0, count, MAX_BATCH_WRITES)
