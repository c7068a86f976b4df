"""Which models there are, how each is brought to use a tool, and what its tokens cost: data with a date.

    {"as_of": "2026-10-10", "source": "https://…", "models": {"claude-haiku-5-5": {"tool": "forced", "tiers": […]}}}

The file beside this one can be replaced by the setting `reasoner_prices`; a model without a row there is not used, because
a budget could not see it.
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

from holdfast.errors import SettingsError

FILE: Final = "prices/claude-2026-10.json"
MILLION: Final = 1_000_000


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tier(_Row):
    """Prices up to a size of the prompt; the last tier has no such size."""

    input_tokens_max: int | None
    input: Decimal = Field(ge=0)
    output: Decimal = Field(ge=0)


class Model(_Row):
    """`tool`: a model that can be forced to use its tool is; one that refuses that is asked to, and thinks little."""

    tool: Literal["forced", "asked"]
    tiers: tuple[Tier, ...] = Field(min_length=1)

    def usd(self, input_tokens: int, output_tokens: int) -> Decimal:
        tier = next((each for each in self.tiers if _holds(each, input_tokens)), self.tiers[-1])
        return (input_tokens * tier.input + output_tokens * tier.output) / MILLION


class Models(_Row):
    as_of: date
    source: str
    unit: Literal["USD per million tokens"]
    models: Mapping[str, Model]

    def get(self, name: str) -> Model:
        try:
            return self.models[name]
        except KeyError:
            raise SettingsError(
                f"The model {name!r} has no price of {self.as_of}, and what it spends could not be counted: choose one "
                f"of {', '.join(self.models)} (reasoner_model), or name a file that has it (reasoner_prices)."
            ) from None


@cache
def shipped_models() -> Models:
    return Models.model_validate_json(files("holdfast.ai").joinpath(FILE).read_bytes())


def models_in(file: Path) -> Models:
    """Those of a file of the same form."""
    try:
        return Models.model_validate_json(file.read_bytes())
    except OSError as error:
        raise SettingsError(f"The prices in {file} cannot be read: {error.strerror}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise SettingsError(f"The prices in {file} are not of our form: {where}: {first['msg']}.") from error


def _holds(tier: Tier, input_tokens: int) -> bool:
    return tier.input_tokens_max is None or input_tokens <= tier.input_tokens_max
