"""What a measurement of a classifier found, as values: how often it is right, per label, and where it declines to say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.ai.ports import UNKNOWN


@dataclass(frozen=True)
class Outcome:
    """One text that was classified unseen. `best` is the likeliest label, though it may have been too unsure to be given."""

    wanted: str
    best: str
    given: str


@dataclass(frozen=True)
class Score:
    """A label: how many there are, how many of them were found, how many that were called so are."""

    label: str
    examples: int
    recall: float
    precision: float
    mistaken_for: tuple[str, ...]


@dataclass(frozen=True)
class Accuracy:
    """Over all outcomes. `of_all` counts the likeliest label; `of_given` only the labels that were given."""

    outcomes: tuple[Outcome, ...]

    @property
    def of_all(self) -> float:
        return _share([each.best == each.wanted for each in self.outcomes])

    @property
    def of_given(self) -> float:
        return _share([each.given == each.wanted for each in self.outcomes if each.given != UNKNOWN])

    @property
    def declined(self) -> float:
        """The share that was called `unknown`."""
        return _share([each.given == UNKNOWN for each in self.outcomes])

    @property
    def scores(self) -> tuple[Score, ...]:
        labels = sorted({each.wanted for each in self.outcomes})
        return tuple(self._score(label) for label in labels)

    def _score(self, label: str) -> Score:
        own = [each for each in self.outcomes if each.wanted == label]
        called = [each for each in self.outcomes if each.best == label]
        missed = Counter(each.best for each in own if each.best != label)
        return Score(
            label,
            len(own),
            _share([each.best == label for each in own]),
            _share([each.wanted == label for each in called]),
            tuple(name for name, _ in missed.most_common(2)),
        )

    def table(self) -> str:
        """In Markdown, with the sums in the last line."""
        lines = ["| label | examples | found | right when said | mistaken for |", "|---|---:|---:|---:|---|"]
        lines += [
            f"| {each.label} | {each.examples} | {each.recall:.0%} | {each.precision:.0%} | "
            f"{', '.join(each.mistaken_for) or '–'} |"
            for each in self.scores
        ]
        return "\n".join([*lines, f"| **all** | {len(self.outcomes)} | **{self.of_all:.1%}** | | |"])


def _share(hits: Sequence[bool]) -> float:
    return sum(hits) / len(hits) if hits else 0.0
