"""A planner that has a language model read the sentence, and believes nothing of what it says.

    Asked → one tool's input, by any `Reasoner` → checked as a form → the same tables and the same decisions as ours

The model reads; it does not decide. Its cities are looked up in our tables (an ambiguous one is asked about), its days pass
the same limits, and what it gives beside the form is no answer: `PartyFailed`, to be tried again or by another planner.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.ai import DataBlock, Reasoner, Tool, seen
from holdfast.errors import PartyFailed
from tripcortex.model import Cabin
from tripcortex.planning import days
from tripcortex.planning.carriers import is_carrier
from tripcortex.planning.deciding import decided
from tripcortex.planning.mentions import Mention
from tripcortex.planning.money import USD, Money
from tripcortex.planning.places import read_places
from tripcortex.planning.ports import (
    PARTS,
    REFUSALS,
    SENTENCE_CHARS_MAX,
    Asked,
    Planned,
    PlanOutcome,
    Question,
    Refusal,
)
from tripcortex.planning.reading import Reading
from tripcortex.planning.wording import worded

TOKENS_MAX: Final = 2_000
PASSAGES_MAX: Final = 5
PASSAGE_CHARS_MAX: Final = 2_000
TEXT_CHARS_MAX: Final = 400
TOOL_NAME: Final = "fill_in_the_trip"

INSTRUCTIONS: Final = """\
You read what an employee writes about one flight and fill in a form. You do not book, approve or decide anything.
- Today is {today} for the employee. Dates are ISO 8601. "Next Tuesday", said on a Tuesday, is a week later.
- Name places as the employee does, with state or country if they do ("Portland, Maine"), or by IATA code.
- Where something is missing or has two meanings, do not guess: outcome "question", with the parts that are missing.
- Flights for several travellers, several stops, hotels, cars, trains: outcome "refusal".
- Another language than English: outcome "refusal", code "language".
- The policy is shown so that you understand its words. Whether a trip complies is judged by others."""


class TripForm(BaseModel):
    """What the model fills in. Nothing else is taken, and nothing of it is trusted."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    outcome: Literal["plan", "question", "refusal"]
    confidence: float = Field(ge=0, le=1)
    origin: str | None = Field(default=None, max_length=80, description="City or IATA code; null if not said")
    destination: str | None = Field(default=None, max_length=80, description="City or IATA code")
    departure_date: date | None = None
    return_date: date | None = None
    is_one_way: bool | None = Field(default=None, description="true only if the employee says so")
    cabin_class: Cabin | None = Field(default=None, description="null unless the employee asks for one")
    preferred_carriers: tuple[str, ...] = Field(
        default=(), max_length=10, description="IATA codes of two characters"
    )
    avoided_carriers: tuple[str, ...] = Field(default=(), max_length=10)
    nonstop: bool = False
    depart_part: Literal["morning", "afternoon", "evening", "night"] | None = None
    budget_usd: Decimal | None = Field(default=None, gt=0, le=100_000)
    question: str | None = Field(default=None, max_length=TEXT_CHARS_MAX)
    missing: tuple[str, ...] = Field(default=(), max_length=len(PARTS), description=f"Of {', '.join(PARTS)}")
    choices: tuple[str, ...] = Field(default=(), max_length=6)
    refusal_code: str | None = Field(default=None, description=f"One of {', '.join(REFUSALS)}")
    refusal: str | None = Field(default=None, max_length=TEXT_CHARS_MAX)


class ReasonedPlanner:
    """Behind the port `Planner`, by any model behind the port `Reasoner`."""

    def __init__(self, reasoner: Reasoner, model_id: str, thinking_budget: str | None = None) -> None:
        self._reasoner = reasoner
        self.model_id, self.thinking_budget = model_id, thinking_budget

    async def plan(self, asked: Asked) -> PlanOutcome:
        if len(asked.sentence) > SENTENCE_CHARS_MAX:
            return Refusal(
                "too_long", f"This is too long: please say it in at most {SENTENCE_CHARS_MAX:,} characters."
            )
        today = asked.now.astimezone(asked.employee.zone).date()
        used = await self._reasoner.use_tool(
            instructions=INSTRUCTIONS.format(today=f"{today:%A}, {today.isoformat()}"),
            data=_data(asked),
            tool=Tool(TOOL_NAME, "Hand in what the employee's words say.", TripForm.model_json_schema()),
            tokens_max=TOKENS_MAX,
        )
        if used.input is None:
            raise PartyFailed(f"The planner's model gave no plan: {used.reason}.", may_be_done=False)
        return _outcome(_form(used.input), asked)


def _data(asked: Asked) -> list[DataBlock]:
    """Of the employee nothing but their words, their home airport and the day."""
    home = asked.employee.home_airport or "not known"
    answers = [DataBlock(f"answer {at}", text) for at, text in enumerate(asked.answers, 1)]
    policy = [
        DataBlock(f"policy, page {each.source_page or '?'}", (each.content_text or "")[:PASSAGE_CHARS_MAX])
        for each in asked.passages[:PASSAGES_MAX]
    ]
    return [DataBlock("request", asked.sentence), *answers, DataBlock("home airport", home), *policy]


def _form(given: Any) -> TripForm:
    try:
        return TripForm.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the form"
        told = f"The planner's model gave a form that cannot be read: {where}: {first['type']}."
        raise PartyFailed(told, may_be_done=False) from None


def _outcome(form: TripForm, asked: Asked) -> PlanOutcome:
    if form.outcome == "refusal":
        code = form.refusal_code if form.refusal_code in REFUSALS else "unsupported"
        return Refusal(
            code, _text(form.refusal) or "This cannot be planned here. Please ask for one flight, in English."
        )
    missing = tuple(part for part in PARTS if part in form.missing)
    if form.outcome == "question" and missing and form.question:
        return Question(_text(form.question), missing, tuple(map(_text, form.choices)))
    outcome = decided(_reading(form), asked, len(asked.answers))
    if isinstance(outcome, Planned):
        return Planned(
            outcome.parameters,
            outcome.preferences,
            min(outcome.confidence, round(form.confidence, 2)),
            outcome.avoided,
            outcome.notes,
        )
    return outcome


def _reading(form: TripForm) -> Reading:
    """The form as if it had been read by us, so that it is decided upon alike."""
    leave, back = form.departure_date, form.return_date
    return Reading(
        origin=_mention(form.origin, "from"),
        destination=_mention(form.destination, "to"),
        departure=days.fixed(leave.isoformat(), leave) if leave else None,
        returning=days.fixed(back.isoformat(), back) if back else None,
        trip="one_way" if form.is_one_way else None,
        cabins=(form.cabin_class,) if form.cabin_class else (),
        vendors=_carriers(form.preferred_carriers),
        avoided=_carriers(form.avoided_carriers),
        nonstop=form.nonstop,
        part=form.depart_part,
        budgets=(Money(form.budget_usd, USD),) if form.budget_usd else (),
    )


def _mention(name: str | None, role: str) -> Mention | None:
    """The place by our tables. One that they do not know stays a mention, which is asked about."""
    if not name:
        return None
    found = read_places(worded(name), role)
    return (found.origin if role == "from" else found.destination) or Mention(worded(name)[:40], ())


def _carriers(codes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(code.upper() for code in codes if is_carrier(code)))


def _text(text: str | None) -> str:
    return seen(text or "")[:TEXT_CHARS_MAX].strip()
