"""Price lists: data, dated, and replaceable by a file of your own.

What tables use is priced per unit, never per request; queues and objects are priced per request.
"""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import SettingsError

CURRENT: Final = "dynamodb-2024-11"
GB: Final = 1024**3
MILLION: Final = 1_000_000
SECONDS_PER_MONTH: Final = 365.25 / 12 * 86400


class QueuePrices(BaseModel):
    """Queues are billed by the request. The free requests of each month are not taken off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: date
    source: str = ""
    requests_million: float = Field(ge=0)
    fifo_requests_million: float = Field(ge=0)
    # For so many bytes each, a request is billed once more.
    request_bytes: int = Field(default=64 * 1024, gt=0)
    # How long one that asks waits for a message, at most.
    poll_wait_s: float = Field(default=20.0, gt=0)

    def requests(self, count: float, *, fifo: bool) -> float:
        return count / MILLION * (self.fifo_requests_million if fifo else self.requests_million)


class ObjectPrices(BaseModel):
    """Objects are billed by the request, putting and listing more than reading, and by what is kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: date
    source: str = ""
    writes_million: float = Field(ge=0)
    reads_million: float = Field(ge=0)
    storage_gb_month: float = Field(ge=0)

    def writes(self, count: float) -> float:
        return count / MILLION * self.writes_million

    def reads(self, count: float) -> float:
        return count / MILLION * self.reads_million

    def storage(self, size_bytes: int) -> float:
        return size_bytes / GB * self.storage_gb_month


class PriceList(BaseModel):
    """What a service asks for. The amounts are what the published list has; the methods are per single thing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    title: str
    region: str
    currency: str
    since: date
    source: str = ""
    write_units_million: float = Field(ge=0)
    read_units_million: float = Field(ge=0)
    storage_gb_month: float = Field(ge=0)
    recovery_gb_month: float = Field(ge=0)
    stream_reads_hundred_thousand: float = Field(ge=0)
    # What is billed beside an item's own bytes, in the table and in each index that has it.
    item_overhead_bytes: int = Field(ge=0)
    # How often one reader asks a stream: each asking is billed, also when nothing is there.
    stream_polls_per_second: float = Field(ge=0)
    # A list may leave these out: what has no price is not counted, and told so.
    queues: QueuePrices | None = None
    objects: ObjectPrices | None = None

    @property
    def write_unit(self) -> float:
        return self.write_units_million / MILLION

    @property
    def read_unit(self) -> float:
        return self.read_units_million / MILLION

    def writes(self, units: float) -> float:
        return units * self.write_unit

    def reads(self, units: float) -> float:
        return units * self.read_unit

    def storage(self, items: int, size_bytes: int) -> float:
        """A month of keeping so many items of so many bytes together."""
        return (size_bytes + items * self.item_overhead_bytes) / GB * self.storage_gb_month

    def recovery(self, items: int, size_bytes: int) -> float:
        """A month of continuous backups: of the table and its local indexes, not of the global ones."""
        return (size_bytes + items * self.item_overhead_bytes) / GB * self.recovery_gb_month

    def stream(self) -> float:
        """A month of one reader on one shard of a stream."""
        polls = self.stream_polls_per_second * SECONDS_PER_MONTH
        return polls / 100_000 * self.stream_reads_hundred_thousand


def price_list(name: str = CURRENT) -> PriceList:
    """One of the lists that ship."""
    shipped = files("holdfast.reports").joinpath("prices", f"{name}.json")
    if not shipped.is_file():
        raise SettingsError(f"There is no price list {name!r}: {', '.join(price_list_names())} ship.")
    return _read(shipped.read_text(encoding="utf-8"), name)


def price_list_names() -> tuple[str, ...]:
    """The lists that ship, the oldest first."""
    folder = files("holdfast.reports").joinpath("prices")
    return tuple(sorted(each.name.removesuffix(".json") for each in folder.iterdir()))


def price_list_from(file: Path) -> PriceList:
    """A list of your own: the same JSON as those that ship. The name of one that ships will do too."""
    if not file.exists() and str(file) in price_list_names():
        return price_list(str(file))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(
            f"The price list {file} cannot be read ({reason}): name a file, or one that ships: "
            f"{', '.join(price_list_names())}."
        ) from error
    return _read(text, str(file))


def _read(text: str, name: str) -> PriceList:
    try:
        return PriceList.model_validate_json(text)
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg']}"
            for one in error.errors(include_url=False)
        )
        raise SettingsError(f"The price list {name} is not as it must be: {told}.") from error
