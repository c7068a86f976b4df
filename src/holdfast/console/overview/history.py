"""The samples of the last hour in memory, so that a page reads only what is new."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from holdfast.console.overview.records import RETENTION, SAMPLE_EVERY_S, list_samples
from holdfast.console.overview.samples import Sample, decode_sample
from holdfast.runtime.stores import Stores

HOUR_S: Final = RETENTION.total_seconds()
# Twice as many as there should be, if clocks differ.
MAX_SAMPLES: Final = int(2 * HOUR_S / SAMPLE_EVERY_S)
# Current rates are the mean of so many samples: a minute.
CURRENT_SAMPLES: Final = 4
# A later sample is from a clock that is ahead. It is not read before its time: it would hide all others.
MAX_CLOCK_DIFFERENCE: Final = timedelta(seconds=SAMPLE_EVERY_S)
_NEXT: Final = timedelta(microseconds=1)


class SampleHistory:
    """Reads the samples that any console process has written."""

    def __init__(self, own: Stores) -> None:
        self._own = own
        self._samples: deque[Sample] = deque(maxlen=MAX_SAMPLES)
        self._read_until: datetime | None = None
        self._lock = asyncio.Lock()

    async def refresh(self) -> float:
        """Read the new samples and return the time of the last one; 0 if there is none."""
        async with self._lock:
            now = self._own.now()
            since = self._read_until or now - RETENTION
            async for record in self._own.each(list_samples(since)):
                if record.at > now + MAX_CLOCK_DIFFERENCE:
                    break
                self._read_until = record.at + _NEXT
                if (sample := decode_sample(record.content)) is not None:
                    self._samples.append(sample)
            while self._samples and self._samples[0].at < now.timestamp() - HOUR_S:
                self._samples.popleft()
        return self._samples[-1].at if self._samples else 0.0

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples of the last hour that were read, the oldest first."""
        return self._samples

    def list_current(self) -> list[Sample]:
        """Return the samples of the last minute."""
        return list(islice(reversed(self._samples), CURRENT_SAMPLES))[::-1]
