"""Settings of the agent in the table: seed the document's defaults, load, validate and change them.

Also the working hours: whether they are open, and when they open next. Hours are wall-clock times in their
time zone, so days with a clock change need no special handling.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict

from agenticpm.domain.addresses import is_address
from agenticpm.model import patterns
from agenticpm.model.entities import AgentConfig, EventType
from agenticpm.model.events import build_event_writes, get_now
from holdfast import Stores
from holdfast.core.errors import ConditionFailed, InvalidRequest, NotFound, SettingsError

ConfigValue: TypeAlias = str | int | Decimal | dict[str, Any]

DEFAULTS: Final[dict[str, ConfigValue]] = {
    "polling_interval_minutes": 15,
    "budget_ceiling_daily_usd": Decimal("0.33"),
    "hold_queue_minutes": 30,
    "working_hours": {"start": "08:00", "end": "18:00", "timezone": "Australia/Sydney"},
}
# Optional settings that the document does not have: the comma-separated recipients of the digest.
OPTIONAL_DEFAULTS: Final[dict[str, ConfigValue]] = {"digest_recipients": ""}
# Records that only the agent sets, stored among its settings: the day's spend, the day of the last digest,
# and the sandboxes in use.
SPEND: Final = "spend"
DIGEST: Final = "digest"
SANDBOXES: Final = "stand_ins"

POLLING_MINUTES: Final = (1, 24 * 60)
HOLD_MINUTES: Final = (0, 7 * 24 * 60)
BUDGET_USD: Final = (Decimal(0), Decimal(1000))
MAX_RECIPIENTS_CHARS: Final = 2000
MINUTE: Final = timedelta(minutes=1)
# Hours that a clock change skips are open again a day later.
MAX_OPENING_MINUTES: Final = 3 * 24 * 60
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_MIDNIGHT: Final = "24:00"  # as an end


class WorkingHours(BaseModel):
    """Daily working hours from `start` until `end` in a time zone.

    If `end` is before `start`, they span midnight.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: str
    end: str
    timezone: str

    def is_open(self, now: datetime) -> bool:
        """Return whether the time is within the working hours, every day of the week."""
        local = now.astimezone(get_zone(self.timezone))
        minute = local.hour * 60 + local.minute
        start, end = _to_minutes(self.start), _to_minutes(self.end)
        return start <= minute < end if start < end else minute >= start or minute < end


class AgentSettings(BaseModel):
    """The settings, with defaults for those that are not set."""

    model_config = ConfigDict(frozen=True)

    polling_interval_minutes: int
    budget_ceiling_daily_usd: Decimal
    hold_queue_minutes: int
    working_hours: WorkingHours
    digest_recipients: tuple[str, ...] = ()

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> AgentSettings:
        """Build the settings from stored values by key; defaults replace those that are absent."""
        found = {key: values.get(key, default) for key, default in (DEFAULTS | OPTIONAL_DEFAULTS).items()}
        return cls.model_validate(found | {"digest_recipients": _split_addresses(found["digest_recipients"])})


async def seed(stores: Stores) -> list[str]:
    """Write the defaults of unset settings and return the keys written. Safe to run concurrently."""
    seeded = []
    for key, value in DEFAULTS.items():
        new = AgentConfig(key=key, value=value, updated_at=get_now(stores.clock))
        try:
            await stores.run(patterns.seed_config(new))
        except ConditionFailed:
            continue
        seeded.append(key)
    return seeded


async def load_or_seed(stores: Stores) -> AgentSettings:
    """Load the settings, and seed the defaults that are absent."""
    found = patterns.index_values(await stores.all(patterns.agent_configs()))
    if DEFAULTS.keys() - found.keys():
        await seed(stores)
    return AgentSettings.from_values(found)


async def load(stores: Stores) -> AgentSettings:
    """Load the settings, with defaults for unset ones; write nothing."""
    return AgentSettings.from_values(patterns.index_values(await stores.all(patterns.agent_configs())))


async def list_settings(stores: Stores) -> list[AgentConfig]:
    """List all settings that a person may set by key, including unset ones; seed absent defaults.

    The agent's own records are left out.
    """
    await load_or_seed(stores)
    found = {each.key: each for each in await stores.all(patterns.agent_configs())}
    unset = [
        AgentConfig(key=key, value=value, updated_at=get_now(stores.clock))
        for key, value in OPTIONAL_DEFAULTS.items()
    ]
    known = {each.key: each for each in unset} | found
    return [known[key] for key in sorted(PARSERS) if key in known]


async def get(stores: Stores, key: str) -> AgentConfig:
    """Return one stored setting or record by key. Raise NotFound if it is not stored."""
    found = await stores.run(patterns.agent_config(key))
    if found is None:
        raise NotFound(f"Setting {key!r} not found. Settings: {', '.join(PARSERS)}.")
    return found


async def put(stores: Stores, key: str, value: Any, *, by: str = "user") -> AgentConfig:
    """Validate and store one setting, with an event in the same transaction. `by` is the user in the event.

    Raise InvalidRequest if the key or the value is invalid.
    """
    now = get_now(stores.clock)
    wanted = AgentConfig(key=key, value=validate(key, value), updated_at=now)
    seen = await stores.run(patterns.agent_config(key))
    detail = {"key": key, "before": None if seen is None else seen.value, "after": wanted.value, "by": by}
    event = build_event_writes(
        stores, None, EventType.config_changed, f"The setting {key} was changed", detail, at=now
    )
    await stores.transact(patterns.put_config(wanted), *event)
    return wanted


def validate(key: str, value: Any) -> ConfigValue:
    """Return the value as it is stored. Raise InvalidRequest if the key or the value is invalid."""
    if key in (SPEND, DIGEST, SANDBOXES):
        raise InvalidRequest(f"Only the agent sets {key}. You can set: {', '.join(PARSERS)}.")
    if key not in PARSERS:
        raise InvalidRequest(f"Unknown setting {key!r}: expected one of {', '.join(PARSERS)}.")
    return PARSERS[key](key, value)


def is_working_hours(settings: AgentSettings, now: datetime) -> bool:
    return settings.working_hours.is_open(now)


def find_next_opening(settings: AgentSettings, now: datetime) -> datetime:
    """Return when the working hours open next, in UTC; `now` if they are open.

    It searches minute by minute, so days with a clock change need no rule of their own. Raise InvalidRequest
    if the hours do not open within three days.
    """
    hours = settings.working_hours
    if hours.is_open(now):
        return now
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    for _ in range(MAX_OPENING_MINUTES):
        minute += MINUTE
        if hours.is_open(minute):
            return minute
    raise InvalidRequest(f"Invalid working hours: {hours.start} to {hours.end} never opens.")


def count_working_minutes(settings: AgentSettings, since: datetime, now: datetime, limit: int) -> int:
    """Count the minutes of working hours between `since` and `now`, backwards from now, up to `limit`."""
    passed, minute = 0, now
    while passed < limit and minute - MINUTE >= since:
        minute -= MINUTE
        passed += settings.working_hours.is_open(minute)
    return passed


@lru_cache(maxsize=64)
def get_zone(name: str) -> ZoneInfo:
    """Return the time zone.

    Raise InvalidRequest for an unknown name, SettingsError without time zone data.
    """
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        pass
    if not zoneinfo.available_timezones():
        raise SettingsError(
            "This machine has no time zone data. Install the operating system's tzdata package, or the "
            "Python package tzdata."
        )
    raise InvalidRequest(
        f"Invalid time zone {name!r}: expected an IANA name such as Australia/Sydney or UTC."
    )


# --- checks -------------------------------------------------------------------------------------------------


def _make_integer_parser(minimum: int, maximum: int) -> Callable[[str, Any], ConfigValue]:
    """Return a parser of integers within these bounds."""

    def check(key: str, value: Any) -> ConfigValue:
        number = _parse_number(key, value)
        if number != number.to_integral_value() or not minimum <= number <= maximum:
            raise InvalidRequest(f"Invalid {key}={value!r}: expected an integer from {minimum} to {maximum}.")
        return int(number)

    return check


def _parse_usd(key: str, value: Any) -> ConfigValue:
    """Parse an amount from 0 to 1000 dollars."""
    number = _parse_number(key, value)
    if not BUDGET_USD[0] <= number <= BUDGET_USD[1]:
        raise InvalidRequest(f"Invalid {key}={value!r}: expected {BUDGET_USD[0]} to {BUDGET_USD[1]} dollars.")
    return number


def _parse_number(key: str, value: Any) -> Decimal:
    """Parse a finite number from JSON or the command line: 15, 0.33, "0.33". Raise InvalidRequest."""
    try:
        # Decimal accepts more than people write: 1_0, and digits of other scripts.
        is_plain = not isinstance(value, bool) and str(value).isascii() and "_" not in str(value)
        number = Decimal(str(value)) if is_plain else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InvalidRequest(f"Invalid {key}={value!r}: expected a number.")
    return number


def _parse_hours(key: str, value: Any) -> ConfigValue:
    """Validate working hours: an object with `start`, `end` (up to 24:00) and `timezone`."""
    members = tuple(WorkingHours.model_fields)
    if not isinstance(value, Mapping) or set(value) != set(members):
        raise InvalidRequest(
            f"Invalid {key}: expected an object with {', '.join(members)}: "
            f'{{"start": "08:00", "end": "18:00", …}}.'
        )
    for side, at in (("start", value["start"]), ("end", value["end"])):
        is_time = isinstance(at, str) and _TIME.fullmatch(at)
        if not is_time and (side, at) != ("end", _MIDNIGHT):
            raise InvalidRequest(f"Invalid {side} of {key}: expected a time such as 08:00, got {at!r}.")
    if value["start"] == value["end"]:
        raise InvalidRequest(f"Invalid {key}: start and end are equal. Use 00:00 to 24:00 for the whole day.")
    if not isinstance(value["timezone"], str):
        raise InvalidRequest(f"Invalid timezone of {key}: expected a name such as Australia/Sydney.")
    get_zone(value["timezone"])
    return {name: value[name] for name in members}


def _parse_recipients(key: str, value: Any) -> ConfigValue:
    """Return the comma-separated addresses unchanged. Raise InvalidRequest if one is invalid."""
    if not isinstance(value, str) or len(value) > MAX_RECIPIENTS_CHARS:
        raise InvalidRequest(f"Invalid {key}: expected a text of at most {MAX_RECIPIENTS_CHARS} characters.")
    for each in _split_addresses(value):
        if not is_address(each):
            raise InvalidRequest(
                f"Invalid address {each!r} in {key}: expected name@host, separated by commas."
            )
    return value


def _split_addresses(value: Any) -> tuple[str, ...]:
    """Return the addresses between commas, without blanks and empty parts."""
    return tuple(each.strip() for each in str(value).split(",") if each.strip())


def _to_minutes(time: str) -> int:
    """Return the minutes since midnight of a time such as 08:30."""
    return int(time[:2]) * 60 + int(time[3:])


PARSERS: Final[Mapping[str, Callable[[str, Any], ConfigValue]]] = {
    "polling_interval_minutes": _make_integer_parser(*POLLING_MINUTES),
    "budget_ceiling_daily_usd": _parse_usd,
    "hold_queue_minutes": _make_integer_parser(*HOLD_MINUTES),
    "working_hours": _parse_hours,
    "digest_recipients": _parse_recipients,
}
