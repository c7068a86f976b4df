"""Text blocks: groups the lines of a page's columns into headings, paragraphs and lists. Pure functions.

Whether a line is a heading depends on the typography of the whole document (`Typography`).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from .layout import NO_WORDS, Atom, PageObject, TextLine, Vocabulary, join_lines
from .page import Rect, enclose

# A heading in letters larger than the body's by this factor; a bold one may be as small as the body.
_LARGER: Final = 1.12
_MAX_HEADING_WORDS: Final = 25
_MAX_BOLD_HEADING_WORDS: Final = 14
# Lines further apart than this factor of the usual distance belong to two paragraphs.
_APART: Final = 1.22
_ITEMS_APART: Final = 3.0
# Text has no larger line distance: lines that are further apart are paragraphs.
_MAX_LEADING: Final = 1.8

_BULLET: Final = re.compile(r"^[•‣⁃◦▪▫●○■□–—*·-]\s+(?=\S)")
_ENUMERATED: Final = re.compile(r"^(?:\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)])\s+(?=\S)")
_NUMBERED: Final = re.compile(
    r"^(?:\d+(?:\.\d+)*\.?|[A-Z]\.|(?:Section|Chapter|Appendix|Part)\s+\w+[:.]?)\s+\S"
)
_SENTENCE_END: Final = re.compile(r"[.!?:;…][\"'”’)\]]*$")


@dataclass(frozen=True, slots=True)
class Typography:
    """The typography of a document: the size of its body text, and the line distance as a multiple of it.

    `vocabulary` has the words of the pages measured.
    """

    body_size: float = 11.0
    leading: float = 1.2
    vocabulary: Vocabulary = NO_WORDS


class Kind(Enum):
    """The kind of a block; `items` is a list, `thing` a table or figure."""

    heading = auto()
    paragraph = auto()
    items = auto()
    thing = auto()


@dataclass(slots=True)
class Block:
    """A heading, a paragraph, a list, or a table or figure in its place among them."""

    kind: Kind
    lines: list[TextLine] = field(default_factory=list)
    # For a list: the lines of each item.
    items: list[list[TextLine]] = field(default_factory=list)
    thing: PageObject | None = None

    @property
    def box(self) -> Rect:
        return self.thing.box if self.thing else enclose([line.box for line in self.lines])

    @property
    def size(self) -> float:
        """Return the letter size of the first line."""
        return self.lines[0].size

    def text(self, vocabulary: Vocabulary) -> str:
        """Return the block as text: one line per list item or separated row, else one joined line."""
        if self.kind is Kind.items:
            return "\n".join(_item(item, vocabulary) for item in self.items)
        if self.lines[0].has_gap:
            return "\n".join(line.text for line in self.lines)
        return join_lines([line.text for line in self.lines], vocabulary)


def measure_typography(columns: Iterable[Sequence[Atom]]) -> Typography:
    """Return the typography measured on these columns: the most frequent size and a typical line distance."""
    letters: Counter[float] = Counter()
    leadings: list[float] = []
    words: set[str] = set()
    for column in columns:
        lines = [atom for atom in column if isinstance(atom, TextLine)]
        for line in lines:
            letters[line.size] += len(line.text)
            words.update(word.text.lower().strip(".,;:!?()\"'“”‘’") for word in line.words)
        for above, below in itertools.pairwise(lines):
            if _same_style(above, below) and not above.has_gap and above.size:
                leadings.append(_distance(above, below) / above.size)
    usual = sorted(leading for leading in leadings if 0.9 <= leading <= _MAX_LEADING)
    return Typography(
        letters.most_common(1)[0][0] if letters else Typography().body_size,
        usual[len(usual) // 5] if usual else Typography().leading,
        Vocabulary(frozenset(words)),
    )


def build_blocks(columns: Iterable[Sequence[Atom]], typography: Typography) -> list[Block]:
    """Group the lines of the columns, in reading order, into blocks; each table or figure is one block."""
    blocks: list[Block] = []
    for column in columns:
        is_first = True
        for atom in column:
            if isinstance(atom, PageObject):
                blocks.append(Block(Kind.thing, thing=atom))
            elif not (blocks and _extend_block(blocks[-1], atom, typography, is_first)):
                blocks.append(_start_block(atom, typography))
            is_first = False
    for block in blocks:
        if block.kind is Kind.paragraph and _is_heading(block, typography):
            block.kind = Kind.heading
    return blocks


# --- continuation of lines ----------------------------------------------------------------------------------


def _start_block(line: TextLine, manner: Typography) -> Block:
    """Return a new list block for a line that starts an item, else a paragraph."""
    if _is_item(line, manner):
        return Block(Kind.items, [line], [[line]])
    return Block(Kind.paragraph, [line])


def _extend_block(block: Block, line: TextLine, manner: Typography, is_new_column: bool) -> bool:
    """Append the line to the block if it continues it; return whether it did."""
    if block.kind is Kind.thing:
        return False
    above = block.lines[-1]
    if is_new_column:
        follows = is_unfinished(above.text, line.text) and _same_style(above, line)
    elif block.kind is Kind.items:
        follows = _follows_item(block, line, manner)
    else:
        follows = _follows(above, line, manner) and not _is_item(line, manner)
    if not follows:
        return False
    block.lines.append(line)
    if block.kind is Kind.items:
        if _is_item(line, manner):
            block.items.append([line])
        else:
            block.items[-1].append(line)
    return True


def _follows(above: TextLine, line: TextLine, manner: Typography) -> bool:
    """Return whether the line continues the paragraph that ends with `above`."""
    if above.has_gap or line.has_gap:
        # Rows of a table without lines, or labels with their values.
        is_near = _distance(above, line) <= _ITEMS_APART * manner.leading * line.size
        return above.has_gap and line.has_gap and is_near
    is_indented = line.box.left > above.box.left + 0.8 * line.size and line.box.right <= above.box.right + 2
    return (
        _same_style(above, line)
        and _distance(above, line) <= _APART * manner.leading * line.size
        and (not is_indented or not _SENTENCE_END.search(above.text))
    )


def _follows_item(block: Block, line: TextLine, manner: Typography) -> bool:
    """Return whether the line is the next item of the list or continues its last item."""
    above, first = block.lines[-1], block.items[-1][0]
    distance = _distance(above, line)
    if _is_item(line, manner):
        return distance <= _ITEMS_APART * manner.leading * line.size
    is_hanging = line.box.left >= first.box.left + 2
    return (
        is_hanging and abs(above.size - line.size) <= 0.6 and distance <= _APART * manner.leading * line.size
    )


def _distance(above: TextLine, line: TextLine) -> float:
    """Return the distance between the two baselines."""
    return line.base - above.base


def _same_style(one: TextLine, other: TextLine) -> bool:
    """Return whether both lines have nearly the same size and are both bold or both not."""
    return _same_size(one, other) and one.is_bold == other.is_bold


def _same_size(one: TextLine, other: TextLine) -> bool:
    """Return whether the sizes differ by at most a tenth.

    Fixed-width letters are often set slightly smaller in the same sentence.
    """
    return abs(one.size - other.size) <= 0.1 * max(one.size, other.size) + 0.05


def _is_item(line: TextLine, manner: Typography) -> bool:
    """Return whether the line starts with a bullet, or with a number or letter as a list item does."""
    if _BULLET.match(line.text):
        return True
    return bool(_ENUMERATED.match(line.text)) and not line.is_bold and line.size < _LARGER * manner.body_size


def is_unfinished(above: str, below: str) -> bool:
    """Return True if a sentence continues from one text to the other."""
    return not _SENTENCE_END.search(above) and below[:1].islower()


# --- what a block is ----------------------------------------------------------------------------------------


def _is_heading(block: Block, manner: Typography) -> bool:
    """Return whether the block has letters larger than the body's, or is short and bold."""
    words = sum(len(line.words) for line in block.lines)
    first = block.lines[0]
    text = block.lines[-1].text
    if not any(sign.isalpha() for sign in first.text):
        return False
    if first.size >= _LARGER * manner.body_size:
        return words <= _MAX_HEADING_WORDS
    if not first.is_bold or first.size < 0.95 * manner.body_size:
        return False
    return words <= _MAX_BOLD_HEADING_WORDS and (
        bool(_NUMBERED.match(first.text)) or not text.endswith((".", ",", ";"))
    )


def _item(lines: list[TextLine], vocabulary: Vocabulary) -> str:
    """Return the lines of a list item as one text, with its bullet as "- "."""
    text = join_lines([line.text for line in lines], vocabulary)
    return _BULLET.sub("- ", text, count=1)
