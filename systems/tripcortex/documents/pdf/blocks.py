"""Text blocks: groups the lines of a page's columns into headings, paragraphs and lists. Pure functions.

Whether a line is a heading depends on the typography of the whole document (`Typography`).
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
_MAX_LEADING: Final = 2.4
_MIN_LEADINGS: Final = 3
# A centred line has at least this much space on both sides, in points, and at most this difference of them.
_CENTRED_SPACE: Final = 2.0
_CENTRED_NEAR: Final = 3.0
# A space between words, in letter sizes.
_SPACE: Final = 0.2
# A list within another one is indented by more letter sizes than this.
_NESTED: Final = 0.9
_DASHES: Final = ("-", "–", "—")

_BULLET: Final = re.compile(r"^[•‣⁃◦▪▫●○■□◆◇▸▹►▶➔➜➤→»›✓✔✗✘★☐☑–—*·-]\s+(?=\S)")
_ENUMERATED: Final = re.compile(r"^(?:\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)])\s+(?=\S)")
_NUMBERED: Final = re.compile(
    r"^(?:\d+(?:\.\d+)*\.?|[A-Z]\.|(?:Section|Chapter|Appendix|Part)\s+\w+[:.]?)\s+\S"
)
_SENTENCE_END: Final = re.compile(r"[.!?:;…][\"'”’)\]]*$")


@dataclass(frozen=True, slots=True)
class Typography:
    """The typography of a document: the size of its body text, and the line distance as a multiple of it.

    `leadings` has the line distance of each size that differs. `vocabulary` has the words of the pages
    measured. `has_headings` is True if the structure of the document names its headings.
    """

    body_size: float = 11.0
    leading: float = 1.2
    vocabulary: Vocabulary = NO_WORDS
    leadings: Mapping[float, float] = field(default_factory=dict)
    has_headings: bool = False

    def get_leading(self, size: float) -> float:
        """Return the line distance of text of this size, as a multiple of the size."""
        return self.leadings.get(size, self.leading)


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
    # For a list: the lines of each item, and how deep it is nested.
    items: list[list[TextLine]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    thing: PageObject | None = None
    # For a heading that the structure of the page names: 1 is the highest.
    level: int | None = None
    # For a list at the top of a page: whether its first item continues one of the page before.
    continues_item: bool = False

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
            depths = self.depths or [0] * len(self.items)
            return "\n".join(
                "  " * depth + _item(item, vocabulary) for item, depth in zip(self.items, depths, strict=True)
            )
        if self.lines[0].has_gap:
            return "\n".join(line.text for line in self.lines)
        return join_lines([line.text for line in self.lines], vocabulary)


def measure_columns(columns: Iterable[Sequence[Atom]]) -> Typography:
    """Return the typography measured on these columns: the most frequent size and typical line distances."""
    letters: Counter[float] = Counter()
    leadings: dict[float, list[float]] = {}
    words: set[str] = set()
    for column in columns:
        lines = [atom for atom in column if isinstance(atom, TextLine)]
        for line in lines:
            letters[line.size] += len(line.text)
            words.update(word.text.lower().strip(".,;:!?()\"'“”‘’") for word in line.words)
        for above, below in itertools.pairwise(lines):
            if _is_within_sentence(above, below):
                leadings.setdefault(above.size, []).append(_distance(above, below) / above.size)
    default = Typography()
    usual = {size: _get_usual(found) for size, found in leadings.items()}
    return Typography(
        letters.most_common(1)[0][0] if letters else default.body_size,
        _get_usual(itertools.chain(*leadings.values())) or default.leading,
        Vocabulary(frozenset(words)),
        {size: leading for size, leading in usual.items() if leading},
    )


def _is_within_sentence(above: TextLine, below: TextLine) -> bool:
    """Return whether the lines seem to belong to one paragraph, wherever they are."""
    return (
        above.size > 0
        and _same_style(above, below)
        and not (above.has_gap or below.has_gap)
        and not _SENTENCE_END.search(above.text)
        and not _BULLET.match(below.text)
    )


def _get_usual(leadings: Iterable[float]) -> float | None:
    """Return a typical line distance: the first fifth of the distances is below it. None for too few."""
    usual = sorted(leading for leading in leadings if 0.9 <= leading <= _MAX_LEADING)
    return usual[len(usual) // 5] if len(usual) >= _MIN_LEADINGS else None


@dataclass(frozen=True, slots=True)
class Margins:
    """The left and right ends of a column of text."""

    left: float
    right: float

    @classmethod
    def from_column(cls, column: Sequence[Atom]) -> Margins:
        """Return the ends of the widest lines."""
        lines = [atom.box for atom in column if isinstance(atom, TextLine)]
        return cls(min(box.left for box in lines), max(box.right for box in lines)) if lines else cls(0, 0)

    def is_centred(self, box: Rect) -> bool:
        """Return whether the box has the same space on both sides."""
        left, right = box.left - self.left, self.right - box.right
        return left > _CENTRED_SPACE and abs(left - right) <= max(
            _CENTRED_NEAR, 0.02 * (self.right - self.left)
        )

    def is_wrapped(self, above: TextLine, line: TextLine) -> bool:
        """Return whether the first word of `line` had no space at the end of `above`."""
        space = self.right - above.box.right
        if self.is_centred(above.box):
            space = self.right - self.left - above.box.width
        return line.words[0].box.width + _SPACE * line.size >= space or above.text.endswith(("-", "\u00ad"))


def build_blocks(columns: Iterable[Sequence[Atom]], typography: Typography) -> list[Block]:
    """Group the lines of the columns, in reading order, into blocks; each table or figure is one block."""
    blocks: list[Block] = []
    for column in columns:
        margins = Margins.from_column(column)
        is_first = True
        for atom in column:
            if isinstance(atom, PageObject):
                blocks.append(Block(Kind.thing, thing=atom))
            elif not (blocks and _extend_block(blocks[-1], atom, typography, margins, is_first)):
                blocks.append(_start_block(atom, typography))
            is_first = False
    for block in blocks:
        if block.kind is Kind.items:
            block.depths = _measure_depths(block)
        elif block.kind is Kind.paragraph and is_heading(block, typography):
            block.kind = Kind.heading
    return demote_empty_headings(blocks)


def demote_empty_headings(blocks: list[Block]) -> list[Block]:
    """Make a heading a paragraph if a higher one follows it at once, as after the date below a title."""
    for block, following in itertools.pairwise(blocks):
        is_followed = block.kind is following.kind is Kind.heading and block.level is following.level is None
        if is_followed and following.size > _LARGER * block.size and not _NUMBERED.match(block.lines[0].text):
            block.kind = Kind.paragraph
    return blocks


def _measure_depths(block: Block) -> list[int]:
    """Return how deep each item of a list is nested, by where it starts."""
    lefts: list[float] = []
    depths = []
    for item in block.items:
        left = item[0].box.left
        while lefts and lefts[-1] > left + _NESTED * item[0].size:
            lefts.pop()
        if not lefts or left > lefts[-1] + _NESTED * item[0].size:
            lefts.append(left)
        depths.append(len(lefts) - 1)
    return depths


# --- continuation of lines ----------------------------------------------------------------------------------


def _start_block(line: TextLine, manner: Typography) -> Block:
    """Return a new list block for a line that starts an item, else a paragraph."""
    if _is_item(line, manner):
        return Block(Kind.items, [line], [[line]])
    return Block(Kind.paragraph, [line])


def _extend_block(
    block: Block, line: TextLine, manner: Typography, margins: Margins, is_new_column: bool
) -> bool:
    """Append the line to the block if it continues it; return whether it did."""
    if block.kind is Kind.thing:
        return False
    above = block.lines[-1]
    is_new_column = is_new_column and not _is_right_below(above, line, manner)
    is_item = _is_item(line, manner) and not _is_dash_in_sentence(above, line, margins)
    if is_new_column:
        follows = is_unfinished(above.text, line.text) and _same_style(above, line)
    elif block.kind is Kind.items:
        follows = (
            _distance(above, line) <= _ITEMS_APART * manner.get_leading(line.size) * line.size
            if is_item
            else _follows_item(block, line, manner, margins)
        )
    else:
        follows = not is_item and _follows(above, line, manner, margins)
    if not follows:
        return False
    block.lines.append(line)
    if block.kind is Kind.items:
        if is_item:
            block.items.append([line])
        else:
            block.items[-1].append(line)
    return True


def _is_right_below(above: TextLine, line: TextLine, manner: Typography) -> bool:
    """Return whether the first line of a column continues the text above it, rather than another column."""
    distance = _distance(above, line)
    overlaps = above.box.left < line.box.right and line.box.left < above.box.right
    return overlaps and 0 < distance <= _ITEMS_APART * manner.get_leading(line.size) * line.size


def _is_dash_in_sentence(above: TextLine, line: TextLine, margins: Margins) -> bool:
    """Return whether the line starts with a dash of the sentence that the line above begins."""
    return (
        line.words[0].text in _DASHES
        and not _SENTENCE_END.search(above.text)
        and margins.is_wrapped(above, line)
    )


def _follows(above: TextLine, line: TextLine, manner: Typography, margins: Margins) -> bool:
    """Return whether the line continues the paragraph that ends with `above`."""
    if above.has_gap or line.has_gap:
        # Rows of a table without lines, or labels with their values.
        is_near = _distance(above, line) <= _ITEMS_APART * manner.leading * line.size
        return above.has_gap and line.has_gap and is_near
    is_wrapped = margins.is_wrapped(above, line)
    if not (_same_style(above, line) or (is_wrapped and _continues_style(above, line))):
        return False
    if not _is_near(above, line, manner):
        return is_wrapped and _is_spaced_sentence(above, line)
    if not _SENTENCE_END.search(above.text):
        return True
    is_indented = line.box.left > above.box.left + 0.8 * line.size and line.box.right <= above.box.right + 2
    return is_wrapped and (not is_indented or margins.is_centred(line.box))


def _follows_item(block: Block, line: TextLine, manner: Typography, margins: Margins) -> bool:
    """Return whether the line continues the last item of the list."""
    above, first = block.lines[-1], block.items[-1][0]
    if abs(above.size - line.size) > 0.6:
        return False
    is_hanging = line.box.left >= first.box.left + 2
    is_wrapped = margins.is_wrapped(above, line)
    if _is_near(above, line, manner):
        return is_hanging or (is_wrapped and not _SENTENCE_END.search(above.text))
    return is_hanging and is_wrapped and _is_spaced_sentence(above, line)


def _is_near(above: TextLine, line: TextLine, manner: Typography) -> bool:
    """Return whether the lines are as near as those of one paragraph."""
    return _distance(above, line) <= _APART * manner.get_leading(line.size) * line.size


def _is_spaced_sentence(above: TextLine, line: TextLine) -> bool:
    """Return whether one sentence continues over lines that are far apart."""
    return is_unfinished(above.text, line.text) and _distance(above, line) <= _MAX_LEADING * line.size


def _distance(above: TextLine, line: TextLine) -> float:
    """Return the distance between the two baselines."""
    return line.base - above.base


def _same_style(one: TextLine, other: TextLine) -> bool:
    """Return whether both lines have nearly the same size and are both bold or both not."""
    return _same_size(one, other) and one.is_bold == other.is_bold


def _continues_style(one: TextLine, other: TextLine) -> bool:
    """Return whether the words at the break have the same size and weight."""
    return _same_size(one, other) and one.words[-1].is_bold == other.words[0].is_bold


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


def is_heading(block: Block, manner: Typography) -> bool:
    """Return whether the block has letters larger than the body's, or is short and bold.

    Where the structure of the document names its headings, only a numbered one is another.
    """
    words = sum(len(line.words) for line in block.lines)
    first = block.lines[0]
    text = block.lines[-1].text
    is_numbered = bool(_NUMBERED.match(first.text))
    if not any(sign.isalpha() for sign in first.text) or (manner.has_headings and not is_numbered):
        return False
    if first.size >= _LARGER * manner.body_size:
        is_sentence = words > _MAX_BOLD_HEADING_WORDS and text.endswith((".", ",", ";"))
        return words <= _MAX_HEADING_WORDS and not is_sentence
    if not first.is_bold or first.size < 0.95 * manner.body_size:
        return False
    return words <= _MAX_BOLD_HEADING_WORDS and (is_numbered or not text.endswith((".", ",", ";")))


def _item(lines: list[TextLine], vocabulary: Vocabulary) -> str:
    """Return the lines of a list item as one text, with its bullet as "- "; a number stays as it is."""
    text = join_lines([line.text for line in lines], vocabulary)
    return text if _ENUMERATED.match(text) else "- " + _BULLET.sub("", text, count=1)
