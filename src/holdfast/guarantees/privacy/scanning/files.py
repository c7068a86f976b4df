"""`scan_files`: searches files for given texts and for personal identifiers, in chunks.

Chunks overlap by more than the longest match, and a match counts in the chunk that it starts in: it is
reported once, and none is lost at a border.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.core.errors import NotFound, SettingsError
from holdfast.guarantees.privacy.redaction.masks import IdentifierKind, mask
from holdfast.guarantees.privacy.scanning import identifier_patterns
from holdfast.guarantees.privacy.scanning.live_files import open_live
from holdfast.guarantees.privacy.scanning.needles import Needles
from holdfast.guarantees.privacy.scanning.sqlite_pages import find_split

CHUNK_BYTES: Final = 1024 * 1024
# More findings add no information.
MAX_FINDINGS: Final = 10_000

# Called with the file name, the bytes read, and the total.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Finding:
    """A match at a byte offset of a file.

    `kind` is `needle`, `email`, `phone` or `tracking`; the sample is masked.
    """

    file: str
    offset: int
    kind: str
    sample: str
    spelling: str


def scan_files(
    paths: Iterable[Path | str],
    *,
    needles: Sequence[str] = (),
    kinds: Collection[IdentifierKind] = identifier_patterns.KINDS,
    allow: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Finding]:
    """Search these files, and all files below these folders; return up to 10 000 findings, by file and
    offset.

    `needles` are texts to find. `allow` are texts that may occur though they match a kind:
    `support@shop.example`, or with wildcards `*@shop.example`. They do not hide a needle. Raises `NotFound`
    for a missing path and `SettingsError` for a file that cannot be read.
    """
    files = [file for path in paths for file in _list_files(Path(path))]
    total = sum(size for _, size in files)
    sought = _Search(Needles(needles), frozenset(kinds) & identifier_patterns.KINDS, tuple(allow))
    found: list[Finding] = []
    done = 0
    for file, size in files:
        report = partial(_report_progress, progress, file.name, done, total)
        report(0)
        for finding in sought.search_file(file, report):
            found.append(finding)
            if len(found) >= MAX_FINDINGS:
                return found
        done += size
    return found


def _report_progress(progress: Progress | None, name: str, before: int, total: int, read: int) -> None:
    """Call `progress`, if given, with the bytes of all files read so far, at most `total`."""
    if progress is not None:
        # A file may have grown since its size was read.
        progress(name, min(before + read, total), total)


def _list_files(path: Path) -> list[tuple[Path, int]]:
    """Return the file, or the files below the folder, with their sizes; raise `NotFound` if the path is
    missing.
    """
    if not path.exists():
        raise NotFound(f"Found nothing to scan at {path}. Pass an existing file or folder.")
    below = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(file, file.stat().st_size) for file in below if file.is_file()]


@dataclass(frozen=True)
class _Search:
    """A search for needles and kinds of identifiers; texts in `allow` are no findings of a kind."""

    needles: Needles
    kinds: frozenset[IdentifierKind]
    allow: tuple[str, ...]

    def search_file(self, path: Path, report: Callable[[int], None]) -> Iterator[Finding]:
        """Yield the findings of a file, one per offset and kind, then texts that SQLite has split.

        `report` gets the bytes read.
        """
        try:
            with open_live(path) as file:
                seen = set[tuple[int, str]]()
                for finding in self._search_chunks(str(path), file, report):
                    # A text that matches in two spellings or by two patterns is one finding.
                    if (finding.offset, finding.kind) not in seen:
                        seen.add((finding.offset, finding.kind))
                        yield finding
            for at, spelled in find_split(path, self.needles):
                yield self._build_needle_finding(
                    str(path), at, spelled.needle, f"{spelled.spelling}, cut by a page"
                )
        except FileNotFoundError:
            return  # a log that was merged into its database meanwhile
        except OSError as error:
            raise SettingsError(
                f"Cannot read {path} ({error.strerror}). Scan it as a user with read permission."
            ) from error

    def _search_chunks(self, name: str, file: BinaryIO, report: Callable[[int], None]) -> Iterator[Finding]:
        """Read the file in overlapping chunks and yield each finding once."""
        overlap = max(self.needles.max_bytes, identifier_patterns.MAX_BYTES) * 2
        # `kept` starts at `start`; matches that start before `fresh` were reported with the previous chunk.
        kept, start, fresh = b"", 0, 0
        while True:
            more = file.read(CHUNK_BYTES)
            stretch = kept + more
            end = start + len(stretch)
            # A match that starts later may continue in the next chunk.
            until = end - overlap // 2 if more else end
            for finding in self._search_chunk(name, stretch, start):
                if fresh <= finding.offset < until:
                    yield finding
            if not more:
                return
            fresh = max(fresh, until)
            kept = stretch[-overlap:]
            start = end - len(kept)
            report(end)

    def _search_chunk(self, name: str, chunk: bytes, start: int) -> list[Finding]:
        """Return the findings of one chunk by offset; `start` is the chunk's position in the file."""
        found = [
            self._build_needle_finding(name, start + at, spelled.needle, spelled.spelling)
            for at, spelled in self.needles.find(chunk)
        ]
        for kind, at, text, spelling in identifier_patterns.find_identifiers(chunk, self.kinds):
            if not any(fnmatchcase(text, allowed) for allowed in self.allow):
                found.append(Finding(name, start + at, kind.value, mask(kind, text, "stars"), spelling))
        return sorted(found, key=lambda finding: (finding.offset, finding.kind))

    def _build_needle_finding(self, name: str, offset: int, number: int, spelling: str) -> Finding:
        """Return the finding of a needle, which shows its number and length but not its text.

        `number` counts from 0.
        """
        sample = f"needle {number + 1} ({len(self.needles.texts[number])} characters)"
        return Finding(name, offset, "needle", sample, spelling)
