"""Language models and their token prices, as dated data from a JSON file.

    {"as_of": "2026-10-10", "source": "https://…", "unit": "USD per million tokens",
    "models": {"claude-haiku-5-5": {"tool": "forced", "tiers": […]}}}

The setting `reasoner_prices` replaces the shipped file. A model without a price is refused, because a budget
could not count its cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.core.errors import SettingsError

SHIPPED_FILE: Final = "prices/claude-2026-10.json"
MILLION: Final = 1_000_000


class _StrictModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PriceTier(_StrictModel):
    """Prices up to a prompt size; the last tier has no limit."""

    input_tokens_max: int | None
    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)


class ModelPricing(_StrictModel):
    """A model's prices, and the way to request a tool call from it. `tool` is `forced` for a model that
    accepts a forced tool choice, `asked` for one that refuses it: the prompt then asks for the call, at
    low effort.
    """

    tool: Literal["forced", "asked"]
    tiers: tuple[PriceTier, ...] = Field(min_length=1)

    def compute_cost_usd(self, input_tokens: int, output_tokens: int) -> Decimal:
        """Return the cost of a call by the first tier that covers its input tokens."""
        tier = next((each for each in self.tiers if _covers(each, input_tokens)), self.tiers[-1])
        return (input_tokens * tier.input + output_tokens * tier.output) / MILLION


class ModelCatalog(_StrictModel):
    """The models of a price file, by name."""

    as_of: date
    source: str
    unit: Literal["USD per million tokens"]
    models: Mapping[str, ModelPricing]

    def get(self, name: str) -> ModelPricing:
        """Return the pricing of a model. Raise `SettingsError` if the catalog has no price for it."""
        try:
            return self.models[name]
        except KeyError:
            raise SettingsError(
                f"The model {name!r} has no price as of {self.as_of}, so its cost could not be counted. "
                f"Choose one of {', '.join(self.models)} (reasoner_model), or set a file with its price "
                "(reasoner_prices)."
            ) from None


@cache
def load_shipped_models() -> ModelCatalog:
    """Return the catalog that ships with Holdfast, loaded once."""
    return ModelCatalog.model_validate_json(files("holdfast.ai").joinpath(SHIPPED_FILE).read_bytes())


def load_models(file: Path) -> ModelCatalog:
    """Load the catalog from a file in the shipped file's format. Raise `SettingsError` if it is unreadable or
    invalid.
    """
    try:
        return ModelCatalog.model_validate_json(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"Failed to read the prices in {file}: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SettingsError(f"Invalid prices in {file}: {where}: {first['msg']}.") from error


def _covers(tier: PriceTier, input_tokens: int) -> bool:
    """Return whether the tier has the prices for this many input tokens."""
    return tier.input_tokens_max is None or input_tokens <= tier.input_tokens_max
