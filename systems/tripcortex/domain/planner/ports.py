"""The `Planner` protocol, its request, and its three outcomes: a plan, a question or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from holdfast.core.errors import InvalidRequest
from tripcortex.domain.planner.money import Money
from tripcortex.model.entities import Cabin, Preferences, TripParameters

# Airlines sell about eleven months ahead.
MAX_DAYS_AHEAD: Final = 330
MAX_SENTENCE_CHARS: Final = 2_000
# The codes of refusals, for programs.
REFUSAL_CODES: Final = ("language", "multi_city", "same_place", "too_far", "too_long", "unsupported")
# The parts of a trip that a question can be about, in the order of the questions.
PARTS: Final = ("destination", "origin", "departure_date", "return_date", "cabin_class", "budget")


class Passage(Protocol):
    """A retrieved passage of the policy, as far as a planner reads it."""

    @property
    def content_text(self) -> str | None: ...
    @property
    def section_title(self) -> str | None: ...
    @property
    def source_page(self) -> int | None: ...


@dataclass(frozen=True)
class TravellerProfile:
    """The employee's profile.

    The locale decides whether 3/4 is in March or in April; without a locale, the planner asks.
    """

    employee_id: str
    time_zone: str = "UTC"
    home_airport: str | None = None
    cabin: Cabin = Cabin.economy
    locale: str | None = None

    @property
    def zone(self) -> ZoneInfo:
        """Return the time zone. Raise `InvalidRequest` if `time_zone` is not an IANA name."""
        try:
            return ZoneInfo(self.time_zone)
        except (ValueError, OSError, KeyError) as error:
            raise InvalidRequest(
                f"Invalid time zone {self.time_zone!r}: expected a name of the IANA database, such as "
                "Europe/Berlin."
            ) from error


@dataclass(frozen=True)
class PlanRequest:
    """A request for a plan. Relative dates count from `now`, in the employee's time zone.

    `answers` are the answers to the earlier questions about this request, in order.
    """

    sentence: str
    employee: TravellerProfile
    now: datetime
    answers: tuple[str, ...] = ()
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True)
class TripPlan:
    """A planned trip. `notes` explain to the employee what the planner corrected and what it left out."""

    parameters: TripParameters
    preferences: Preferences
    confidence: float
    # Codes of carriers that the employee wants to avoid.
    avoided: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # The highest price that the employee named, in any currency; `preferences.budget_usd` if it is applied.
    limit: Money | None = None


@dataclass(frozen=True)
class Question:
    """A question to the employee. `missing` names the parts, of `PARTS`; each choice is a valid answer.

    `yes` is what a yes means if the question can be answered with yes or no.
    """

    text: str
    missing: tuple[str, ...]
    choices: tuple[str, ...] = ()
    yes: str | None = None


@dataclass(frozen=True)
class Refusal:
    """A refusal of the request. `code` is one of `REFUSAL_CODES`.

    `text` gives the reason and an alternative.
    """

    code: str
    text: str


PlanOutcome = TripPlan | Question | Refusal


class Planner(Protocol):
    """A planner. `model_id` and `thinking_budget` are recorded in the audit."""

    @property
    def model_id(self) -> str: ...
    @property
    def thinking_budget(self) -> str | None: ...

    async def plan(self, request: PlanRequest) -> PlanOutcome:
        """Return a plan, a question or a refusal.

        Raise `ExternalServiceFailed` if the planner cannot answer now.
        """
        ...
