"""Files searched for given texts and for personal data, a stretch at a time.

Stretches overlap by more than the longest that is looked for, and a find counts in the stretch that it begins in: it
is told once, and none is lost at a border.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from holdfast.errors import NotFound, SettingsError
from holdfast.guarantees.redaction.masks import Kind, mask
from holdfast.guarantees.scanning import patterns
from holdfast.guarantees.scanning.live import reading
from holdfast.guarantees.scanning.needles import Needles
from holdfast.guarantees.scanning.pages import find_cut

STRETCH_BYTES: Final = 1024 * 1024
# A file that is full of finds tells no more by the ten-thousandth.
FINDINGS_MAX: Final = 10_000

# Told what is read, how many bytes are, and how many there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Finding:
    """`kind` is `needle`, `email`, `phone` or `tracking`; the sample shows what it is without showing it."""

    file: str
    offset: int
    kind: str
    sample: str
    spelling: str


def scan_files(
    paths: Iterable[Path | str],
    *,
    needles: Sequence[str] = (),
    kinds: Collection[Kind] = patterns.KINDS,
    allow: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Finding]:
    """What is found in these files, and in all files below these folders, in the order of the files.

    `allow` are texts that may be there though their form is that of a kind: `support@shop.example`, or with stars as
    `*@shop.example`. They do not hide a needle.
    """
    files = [file for path in paths for file in _files(Path(path))]
    total = sum(size for _, size in files)
    sought = _Sought(Needles(needles), frozenset(kinds) & patterns.KINDS, tuple(allow))
    found: list[Finding] = []
    done = 0
    for file, size in files:
        tell = partial(_tell, progress, file.name, done, total)
        tell(0)
        for finding in sought.in_file(file, tell):
            found.append(finding)
            if len(found) >= FINDINGS_MAX:
                return found
        done += size
    return found


def _tell(progress: Progress | None, name: str, before: int, total: int, read: int) -> None:
    if progress is not None:
        # A file may have grown since it was measured.
        progress(name, min(before + read, total), total)


def _files(path: Path) -> list[tuple[Path, int]]:
    if not path.exists():
        raise NotFound(f"There is nothing to scan at {path}: name a file or a folder that is there.")
    below = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [(file, file.stat().st_size) for file in below if file.is_file()]


@dataclass(frozen=True)
class _Sought:
    needles: Needles
    kinds: frozenset[Kind]
    allow: tuple[str, ...]

    def in_file(self, path: Path, tell: Callable[[int], None]) -> Iterator[Finding]:
        try:
            with reading(path) as file:
                seen = set[tuple[int, str]]()
                for finding in self._in_stretches(str(path), file, tell):
                    # A text that is the same in two spellings, or found by two patterns, is one find.
                    if (finding.offset, finding.kind) not in seen:
                        seen.add((finding.offset, finding.kind))
                        yield finding
            for at, spelled in find_cut(path, self.needles):
                yield self._needle(str(path), at, spelled.needle, f"{spelled.spelling}, cut by a page")
        except FileNotFoundError:
            return  # a log that was put into its database meanwhile
        except OSError as error:
            raise SettingsError(
                f"{path} cannot be read ({error.strerror}): scan it as somebody who may."
            ) from error

    def _in_stretches(self, name: str, file: BinaryIO, tell: Callable[[int], None]) -> Iterator[Finding]:
        overlap = max(self.needles.bytes_max, patterns.BYTES_MAX) * 2
        # `kept` begins at `start`; what begins before `fresh` was told with the stretch before.
        kept, start, fresh = b"", 0, 0
        while True:
            more = file.read(STRETCH_BYTES)
            stretch = kept + more
            end = start + len(stretch)
            # What begins later may go on in the next stretch.
            until = end - overlap // 2 if more else end
            for finding in self._in_stretch(name, stretch, start):
                if fresh <= finding.offset < until:
                    yield finding
            if not more:
                return
            fresh = max(fresh, until)
            kept = stretch[-overlap:]
            start = end - len(kept)
            tell(end)

    def _in_stretch(self, name: str, stretch: bytes, start: int) -> list[Finding]:
        found = [
            self._needle(name, start + at, spelled.needle, spelled.spelling)
            for at, spelled in self.needles.find(stretch)
        ]
        for kind, at, text, spelling in patterns.find_kinds(stretch, self.kinds):
            if not any(fnmatchcase(text, allowed) for allowed in self.allow):
                found.append(Finding(name, start + at, kind.value, mask(kind, text, "stars"), spelling))
        return sorted(found, key=lambda finding: (finding.offset, finding.kind))

    def _needle(self, name: str, offset: int, number: int, spelling: str) -> Finding:
        sample = f"needle {number + 1} ({len(self.needles.texts[number])} characters)"
        return Finding(name, offset, "needle", sample, spelling)
