"""A planner that lets a language model read the sentence, and checks everything that the model returns.

    PlanRequest → the tool input of any `Reasoner` → a validated form → the rules of the deterministic planner

The model reads; it does not decide. The planner looks up its cities in our tables (and asks about an
ambiguous one), and its dates pass the same limits. Output that does not match the form raises
`ExternalServiceFailed`, so that the caller retries or uses another planner.
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.ai import DataBlock, Reasoner, Tool, strip_invisible
from holdfast.core.errors import ExternalServiceFailed
from tripcortex.domain.planner import days
from tripcortex.domain.planner.carriers import is_carrier
from tripcortex.domain.planner.decision import decide_outcome
from tripcortex.domain.planner.money import USD, Money
from tripcortex.domain.planner.place_mentions import Mention
from tripcortex.domain.planner.ports import (
    MAX_SENTENCE_CHARS,
    PARTS,
    REFUSAL_CODES,
    PlanOutcome,
    PlanRequest,
    Question,
    Refusal,
    TripPlan,
)
from tripcortex.domain.planner.request_parser import ParsedRequest
from tripcortex.domain.planner.text_normalization import normalize_text
from tripcortex.domain.planner.trip_places import parse_places
from tripcortex.model.entities import Cabin

MAX_TOKENS: Final = 2_000
MAX_PASSAGES: Final = 5
MAX_PASSAGE_CHARS: Final = 2_000
MAX_TEXT_CHARS: Final = 400
TOOL_NAME: Final = "fill_in_the_trip"

INSTRUCTIONS: Final = """\
You read what an employee writes about one flight and fill in a form. You do not book, approve or decide anything.
- Today is {today} for the employee. Dates are ISO 8601. "Next Tuesday", said on a Tuesday, is a week later.
- Name places as the employee does, with state or country if they do ("Portland, Maine"), or by IATA code.
- Where something is missing or has two meanings, do not guess: outcome "question", with the parts that are missing.
- Flights for several travellers, several stops, hotels, cars, trains: outcome "refusal".
- Another language than English: outcome "refusal", code "language".
- The policy is shown so that you understand its words. Whether a trip complies is judged by others."""  # noqa: E501


class TripForm(BaseModel):
    """The form that the model fills in. Additional fields are refused, and every value is checked."""

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
    question: str | None = Field(default=None, max_length=MAX_TEXT_CHARS)
    missing: tuple[str, ...] = Field(default=(), max_length=len(PARTS), description=f"Of {', '.join(PARTS)}")
    choices: tuple[str, ...] = Field(default=(), max_length=6)
    refusal_code: str | None = Field(default=None, description=f"One of {', '.join(REFUSAL_CODES)}")
    refusal: str | None = Field(default=None, max_length=MAX_TEXT_CHARS)


class ModelPlanner:
    """A `Planner` that uses any model behind the `Reasoner` protocol."""

    def __init__(self, reasoner: Reasoner, model_id: str, thinking_budget: str | None = None) -> None:
        self._reasoner = reasoner
        self.model_id, self.thinking_budget = model_id, thinking_budget

    async def plan(self, request: PlanRequest) -> PlanOutcome:
        """Return a plan, a question or a refusal.

        Raise `ExternalServiceFailed` if the model returns no valid form.
        """
        if len(request.sentence) > MAX_SENTENCE_CHARS:
            return Refusal(
                "too_long", f"This request is too long: please use at most {MAX_SENTENCE_CHARS:,} characters."
            )
        today = request.now.astimezone(request.employee.zone).date()
        used = await self._reasoner.use_tool(
            instructions=INSTRUCTIONS.format(today=f"{today:%A}, {today.isoformat()}"),
            data=_build_data_blocks(request),
            tool=Tool(TOOL_NAME, "Hand in what the employee's words say.", TripForm.model_json_schema()),
            tokens_max=MAX_TOKENS,
        )
        if used.input is None:
            raise ExternalServiceFailed(
                f"The planner's model returned no plan: {used.reason}.", may_be_done=False
            )
        return _build_outcome(_parse_form(used.input), request)


def _build_data_blocks(request: PlanRequest) -> list[DataBlock]:
    """Build the model's input: only the employee's words, the home airport, and policy passages."""
    home = request.employee.home_airport or "not known"
    answers = [DataBlock(f"answer {at}", text) for at, text in enumerate(request.answers, 1)]
    policy = [
        DataBlock(f"policy, page {each.source_page or '?'}", (each.content_text or "")[:MAX_PASSAGE_CHARS])
        for each in request.passages[:MAX_PASSAGES]
    ]
    return [DataBlock("request", request.sentence), *answers, DataBlock("home airport", home), *policy]


def _parse_form(given: Any) -> TripForm:
    """Return the validated form.

    Raise `ExternalServiceFailed` if it is invalid, without quoting its values.
    """
    try:
        return TripForm.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the form"
        message = f"The planner's model returned an invalid form: {where}: {first['type']}."
        raise ExternalServiceFailed(message, may_be_done=False) from None


def _build_outcome(form: TripForm, request: PlanRequest) -> PlanOutcome:
    """Return the model's refusal or question; otherwise let `decide_outcome` decide on its form.

    The confidence of a plan is the lower one of the rules' and the model's.
    """
    if form.outcome == "refusal":
        code = form.refusal_code if form.refusal_code in REFUSAL_CODES else "unsupported"
        return Refusal(
            code,
            _clean_text(form.refusal)
            or "This cannot be planned here. Please ask for one flight, in English.",
        )
    missing = tuple(part for part in PARTS if part in form.missing)
    if form.outcome == "question" and missing and form.question:
        return Question(_clean_text(form.question), missing, tuple(map(_clean_text, form.choices)))
    outcome = decide_outcome(_to_parsed_request(form), request, len(request.answers))
    if isinstance(outcome, TripPlan):
        return TripPlan(
            outcome.parameters,
            outcome.preferences,
            min(outcome.confidence, round(form.confidence, 2)),
            outcome.avoided,
            outcome.notes,
        )
    return outcome


def _to_parsed_request(form: TripForm) -> ParsedRequest:
    """Convert the form to a parsed request, so that the same rules decide on it."""
    leave, back = form.departure_date, form.return_date
    return ParsedRequest(
        origin=_resolve_mention(form.origin, "from"),
        destination=_resolve_mention(form.destination, "to"),
        departure=days.fixed_day(leave.isoformat(), leave) if leave else None,
        returning=days.fixed_day(back.isoformat(), back) if back else None,
        trip="one_way" if form.is_one_way else None,
        cabins=(form.cabin_class,) if form.cabin_class else (),
        vendors=_select_known_carriers(form.preferred_carriers),
        avoided=_select_known_carriers(form.avoided_carriers),
        nonstop=form.nonstop,
        part=form.depart_part,
        budgets=(Money(form.budget_usd, USD),) if form.budget_usd else (),
    )


def _resolve_mention(name: str | None, role: str) -> Mention | None:
    """Look up a place in our tables; `role` is "from" or "to".

    Return None without a name; an unknown name becomes a mention without places, which is asked about.
    """
    if not name:
        return None
    found = parse_places(normalize_text(name), role)
    return (found.origin if role == "from" else found.destination) or Mention(normalize_text(name)[:40], ())


def _select_known_carriers(codes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the codes that our table of carriers has, in capitals, each once."""
    return tuple(dict.fromkeys(code.upper() for code in codes if is_carrier(code)))


def _clean_text(text: str | None) -> str:
    """Return the text without invisible characters, cut to 400 characters."""
    return strip_invisible(text or "")[:MAX_TEXT_CHARS].strip()
