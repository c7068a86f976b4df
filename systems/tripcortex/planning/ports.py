"""What a planner is asked, and what it may answer: a plan, a question to the employee, or a refusal. Nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from holdfast.errors import InvalidRequest
from tripcortex.model import Cabin, Preferences, TripParameters

# Airlines sell about eleven months ahead.
DAYS_AHEAD_MAX: Final = 330
SENTENCE_CHARS_MAX: Final = 2_000
# What a refusal says to programs.
REFUSALS: Final = ("language", "multi_city", "same_place", "too_far", "too_long", "unsupported")
# What a question may be about, in the order in which it is asked.
PARTS: Final = ("destination", "origin", "departure_date", "return_date", "cabin_class", "budget")


class Passage(Protocol):
    """What a planner sees of a retrieved piece of policy."""

    @property
    def content_text(self) -> str | None: ...
    @property
    def section_title(self) -> str | None: ...
    @property
    def source_page(self) -> int | None: ...


@dataclass(frozen=True)
class Traveller:
    """What is known of the employee. The locale decides whether 3/4 is in March or in April; without one, they are asked."""

    employee_id: str
    time_zone: str = "UTC"
    home_airport: str | None = None
    cabin: Cabin = Cabin.economy
    locale: str | None = None

    @property
    def zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.time_zone)
        except (ValueError, OSError, KeyError) as error:
            raise InvalidRequest(
                f"The time zone {self.time_zone!r} is not known: name one of the IANA database, like Europe/Berlin."
            ) from error


@dataclass(frozen=True)
class Asked:
    """A request. `now` is when it was made: relative dates count from there, in the employee's zone.

    `answers` are those to the questions that were asked of this request before, in their order.
    """

    sentence: str
    employee: Traveller
    now: datetime
    answers: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True)
class Planned:
    """A trip. `notes` tell the employee what was read other than it was written, and what was left out."""

    parameters: TripParameters
    preferences: Preferences
    confidence: float
    # Carriers that are not wanted.
    avoided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """What the planner has to know first. `missing` names the parts, of `PARTS`; each choice can be the answer as it stands."""

    text: str
    missing: tuple[str, ...]
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """What will not be planned. The code is one of `REFUSALS`; the text says why, and what would go."""

    code: str
    text: str


PlanOutcome = Planned | Question | Refusal


class Planner(Protocol):
    """Raises `PartyFailed` where it cannot answer now. `model_id` and `thinking_budget` are for the audit."""

    @property
    def model_id(self) -> str: ...
    @property
    def thinking_budget(self) -> str | None: ...

    async def plan(self, asked: Asked) -> PlanOutcome: ...
