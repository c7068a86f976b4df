"""The accuracy of a classifier on unseen texts: overall, per label, and the share of `unknown`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.ai.ports import UNKNOWN


@dataclass(frozen=True)
class Outcome:
    """The classification of one text that was not in the training set. `most_likely` is the likeliest label,
    even if its probability was too low to return it; `returned` may be `unknown`.
    """

    expected: str
    most_likely: str
    returned: str


@dataclass(frozen=True)
class Score:
    """The scores of one label: its number of examples, recall, precision, and the labels it was confused
    with.
    """

    label: str
    examples: int
    recall: float
    precision: float
    confused_with: tuple[str, ...]


@dataclass(frozen=True)
class Accuracy:
    """The accuracy over all outcomes. `overall` counts the likeliest label; `when_known` only the returned
    labels.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def overall(self) -> float:
        """The share of texts whose likeliest label is right."""
        return _compute_share([each.most_likely == each.expected for each in self.outcomes])

    @property
    def when_known(self) -> float:
        """The share of right labels among the texts that were not `unknown`."""
        return _compute_share(
            [each.returned == each.expected for each in self.outcomes if each.returned != UNKNOWN]
        )

    @property
    def unknown_share(self) -> float:
        """The share of texts that were classified as `unknown`."""
        return _compute_share([each.returned == UNKNOWN for each in self.outcomes])

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores of each expected label, in alphabetical order."""
        labels = sorted({each.expected for each in self.outcomes})
        return tuple(self._build_score(label) for label in labels)

    def _build_score(self, label: str) -> Score:
        """Compute the scores of one label; `confused_with` are its two most frequent mistakes."""
        own = [each for each in self.outcomes if each.expected == label]
        called = [each for each in self.outcomes if each.most_likely == label]
        missed = Counter(each.most_likely for each in own if each.most_likely != label)
        return Score(
            label,
            len(own),
            _compute_share([each.most_likely == label for each in own]),
            _compute_share([each.expected == label for each in called]),
            tuple(name for name, _ in missed.most_common(2)),
        )

    def to_markdown(self) -> str:
        """Return a Markdown table of the scores, with the totals in the last row."""
        lines = ["| label | examples | recall | precision | confused with |", "|---|---:|---:|---:|---|"]
        lines += [
            f"| {each.label} | {each.examples} | {each.recall:.0%} | {each.precision:.0%} | "
            f"{', '.join(each.confused_with) or '–'} |"
            for each in self.scores
        ]
        return "\n".join([*lines, f"| **all** | {len(self.outcomes)} | **{self.overall:.1%}** | | |"])


def _compute_share(hits: Sequence[bool]) -> float:
    """Return the share of True; 0 if there are none."""
    return sum(hits) / len(hits) if hits else 0.0
