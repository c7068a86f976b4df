"""Read Prometheus' text format: the samples of the metrics that the overview shows, and no others.

Most lines of `/metrics` are buckets of histograms. They are skipped by their name, before anything is parsed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE: Final = re.compile(r"\\(.)")


class MetricValue(NamedTuple):
    """One line: a metric with its labels and its value."""

    name: str
    labels: Mapping[str, str]
    value: float


def parse_metrics(text: str, names: Collection[str]) -> Iterator[MetricValue]:
    """Yield the values of these metrics. Lines that are not valid are skipped."""
    for line in text.splitlines():
        bare, _, _ = line.partition(" ")
        name, brace, _ = bare.partition("{")
        if name not in names:
            continue
        labels, _, rest = line[len(name) + 1 :].rpartition("}") if brace else ("", "", line[len(name) :])
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            continue
        yield MetricValue(name, {key: _unescape(found) for key, found in _LABEL.findall(labels)}, value)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text)
