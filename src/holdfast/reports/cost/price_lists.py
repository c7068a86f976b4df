"""Load price lists: JSON files that ship with the package, each with its date, or a file of the user.

Tables are priced per unit, queues and objects per request.
"""

from __future__ import annotations

from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.core.errors import SettingsError

CURRENT_PRICE_LIST: Final = "dynamodb-2024-11"
GB: Final = 1024**3
MILLION: Final = 1_000_000
SECONDS_PER_MONTH: Final = 365.25 / 12 * 86400


class QueuePrices(BaseModel):
    """The prices of queues, per request. The free requests of each month are not subtracted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: date
    source: str = ""
    requests_million: float = Field(ge=0)
    fifo_requests_million: float = Field(ge=0)
    # A request is billed once for each started block of this size.
    request_bytes: int = Field(default=64 * 1024, gt=0)
    # How long an empty receive waits (long polling).
    poll_wait_s: float = Field(default=20.0, gt=0)

    def compute_request_cost(self, count: float, *, fifo: bool) -> float:
        """Return the price of this many requests."""
        return count / MILLION * (self.fifo_requests_million if fifo else self.requests_million)


class ObjectPrices(BaseModel):
    """The prices of objects: per request (puts and lists cost more than reads) and for storage."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    as_of: date
    source: str = ""
    writes_million: float = Field(ge=0)
    reads_million: float = Field(ge=0)
    storage_gb_month: float = Field(ge=0)

    def compute_write_cost(self, count: float) -> float:
        """Return the price of this many put or list requests."""
        return count / MILLION * self.writes_million

    def compute_read_cost(self, count: float) -> float:
        """Return the price of this many read requests."""
        return count / MILLION * self.reads_million

    def compute_storage_cost(self, size_bytes: int) -> float:
        """Return the price of storing this many bytes for a month."""
        return size_bytes / GB * self.storage_gb_month


class PriceList(BaseModel):
    """A published price list. The fields hold the published amounts."""

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
    # Billed in addition to an item's own bytes, in the table and in each index that contains it.
    item_overhead_bytes: int = Field(ge=0)
    # How often one reader polls a stream: each poll is billed, also an empty one.
    stream_polls_per_second: float = Field(ge=0)
    # Optional: usage without a price is reported as not counted.
    queues: QueuePrices | None = None
    objects: ObjectPrices | None = None

    @property
    def write_unit(self) -> float:
        """The price of one write unit."""
        return self.write_units_million / MILLION

    @property
    def read_unit(self) -> float:
        """The price of one read unit."""
        return self.read_units_million / MILLION

    def compute_write_cost(self, units: float) -> float:
        """Return the price of this many write units."""
        return units * self.write_unit

    def compute_read_cost(self, units: float) -> float:
        """Return the price of this many read units."""
        return units * self.read_unit

    def compute_storage_cost(self, items: int, size_bytes: int) -> float:
        """Return the price of storing these items for a month; `size_bytes` is their total size."""
        return (size_bytes + items * self.item_overhead_bytes) / GB * self.storage_gb_month

    def compute_recovery_cost(self, items: int, size_bytes: int) -> float:
        """Return the price of a month of continuous backups of the table and its local indexes."""
        return (size_bytes + items * self.item_overhead_bytes) / GB * self.recovery_gb_month

    def compute_stream_cost(self) -> float:
        """Return the price of a month of one reader on one shard of a stream."""
        polls = self.stream_polls_per_second * SECONDS_PER_MONTH
        return polls / 100_000 * self.stream_reads_hundred_thousand


def load_price_list(name: str = CURRENT_PRICE_LIST) -> PriceList:
    """Load a price list that ships with the package. Raise `SettingsError` if there is none of this name."""
    shipped = files("holdfast.reports").joinpath("prices", f"{name}.json")
    if not shipped.is_file():
        raise SettingsError(f"Unknown price list {name!r}: expected one of {', '.join(list_price_lists())}.")
    return _parse(shipped.read_text(encoding="utf-8"), name)


def list_price_lists() -> tuple[str, ...]:
    """Return the names of the price lists that ship with the package, the oldest first."""
    folder = files("holdfast.reports").joinpath("prices")
    return tuple(sorted(each.name.removesuffix(".json") for each in folder.iterdir()))


def read_price_list(file: Path) -> PriceList:
    """Read a price list from a JSON file; if the file does not exist, load the shipped list of this name.

    Raise `SettingsError` if there is neither, or if the list is invalid.
    """
    if not file.exists() and str(file) in list_price_lists():
        return load_price_list(str(file))
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise SettingsError(
            f"Failed to read the price list {file} ({reason}). Name a file, or a built-in list: "
            f"{', '.join(list_price_lists())}."
        ) from error
    return _parse(text, str(file))


def _parse(text: str, name: str) -> PriceList:
    """Parse the JSON of a price list. Raise `SettingsError` with this `name` if it is invalid."""
    try:
        return PriceList.model_validate_json(text)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, one['loc'])) or 'the file'}: {one['msg']}"
            for one in error.errors(include_url=False)
        )
        raise SettingsError(f"Invalid price list {name}: {problems}.") from error
