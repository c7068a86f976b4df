"""The settings of the agent: seeded with the document's defaults, read as one typed value, changed by people.

Also what follows from the working hours: whether it is time to work, and when it will be. Hours are those of the wall
clock in their zone, so that a day on which the clocks change is right without anybody's doing.
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

from agenticpm import patterns
from agenticpm.addresses import is_address
from agenticpm.events import moment, recorded
from agenticpm.model import AgentConfig, EventType
from holdfast import Stores
from holdfast.errors import ConditionFailed, InvalidRequest, NotFound, SettingsError

ConfigValue: TypeAlias = str | int | Decimal | dict[str, Any]

DEFAULTS: Final[dict[str, ConfigValue]] = {
    "polling_interval_minutes": 15,
    "budget_ceiling_daily_usd": Decimal("0.33"),
    "hold_queue_minutes": 30,
    "working_hours": {"start": "08:00", "end": "18:00", "timezone": "Australia/Sydney"},
}
# Ours, which nobody has to set: to whom the digest is mailed, as addresses with commas between them.
OURS: Final[dict[str, ConfigValue]] = {"digest_recipients": ""}
# Kept by the agent among its settings, and set by nobody else: the bill of the day, which day has its digest,
# and which sandboxes stand in.
SPEND: Final = "spend"
DIGEST: Final = "digest"
STAND_INS: Final = "stand_ins"

POLLING_MINUTES: Final = (1, 24 * 60)
HOLD_MINUTES: Final = (0, 7 * 24 * 60)
BUDGET_USD: Final = (Decimal(0), Decimal(1000))
RECIPIENTS_CHARS_MAX: Final = 2000
MINUTE: Final = timedelta(minutes=1)
# Hours that a change of the clocks swallows are open again a day later.
OPENING_MINUTES_MAX: Final = 3 * 24 * 60
_TIME: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
_MIDNIGHT: Final = "24:00"  # as an end


class Hours(BaseModel):
    """From `start` until `end`, every day, in a zone. Where they end before they start, they go over midnight."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    start: str
    end: str
    timezone: str

    def are_open(self, now: datetime) -> bool:
        local = now.astimezone(zone_of(self.timezone))
        minute = local.hour * 60 + local.minute
        start, end = _minutes(self.start), _minutes(self.end)
        return start <= minute < end if start < end else minute >= start or minute < end


class Configs(BaseModel):
    """What is set, and the default where nothing is."""

    model_config = ConfigDict(frozen=True)

    polling_interval_minutes: int
    budget_ceiling_daily_usd: Decimal
    hold_queue_minutes: int
    working_hours: Hours
    digest_recipients: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Configs:
        found = {key: values.get(key, default) for key, default in (DEFAULTS | OURS).items()}
        return cls.model_validate(found | {"digest_recipients": _addresses(found["digest_recipients"])})


async def seed(stores: Stores) -> list[str]:
    """The defaults, where nothing is set; gives the keys that were. Several may do so at the same time."""
    seeded = []
    for key, value in DEFAULTS.items():
        new = AgentConfig(key=key, value=value, updated_at=moment(stores.clock))
        try:
            await stores.run(patterns.seed_config(new))
        except ConditionFailed:
            continue
        seeded.append(key)
    return seeded


async def ensured(stores: Stores) -> Configs:
    """What is set, and the defaults seeded where they are absent."""
    found = patterns.values(await stores.all(patterns.agent_configs()))
    if DEFAULTS.keys() - found.keys():
        await seed(stores)
    return Configs.of(found)


async def read(stores: Stores) -> Configs:
    return Configs.of(patterns.values(await stores.all(patterns.agent_configs())))


async def listed(stores: Stores) -> list[AgentConfig]:
    """All that can be set, also where nobody has; and nothing of what the agent keeps for itself."""
    await ensured(stores)
    found = {each.key: each for each in await stores.all(patterns.agent_configs())}
    unset = [
        AgentConfig(key=key, value=value, updated_at=moment(stores.clock)) for key, value in OURS.items()
    ]
    known = {each.key: each for each in unset} | found
    return [known[key] for key in sorted(CHECKS) if key in known]


async def get(stores: Stores, key: str) -> AgentConfig:
    found = await stores.run(patterns.agent_config(key))
    if found is None:
        raise NotFound(f"Nothing is set as {key!r}. These can be: {', '.join(CHECKS)}.")
    return found


async def put(stores: Stores, key: str, value: Any, *, by: str = "user") -> AgentConfig:
    """Sets one of the known keys to a value that was checked, with an event in the same transaction."""
    now = moment(stores.clock)
    wanted = AgentConfig(key=key, value=checked(key, value), updated_at=now)
    seen = await stores.run(patterns.agent_config(key))
    told = {"key": key, "before": None if seen is None else seen.value, "after": wanted.value, "by": by}
    event = recorded(stores, None, EventType.config_changed, f"The setting {key} was changed", told, at=now)
    await stores.transact(patterns.put_config(wanted), *event)
    return wanted


def checked(key: str, value: Any) -> ConfigValue:
    """The value as it is kept, or `InvalidRequest`."""
    if key in (SPEND, DIGEST, STAND_INS):
        raise InvalidRequest(f"{key} is kept by the agent and set by nobody: {', '.join(CHECKS)} can be.")
    if key not in CHECKS:
        raise InvalidRequest(f"There is no setting {key!r}: choose {', '.join(CHECKS)}.")
    return CHECKS[key](key, value)


def is_working_hours(configs: Configs, now: datetime) -> bool:
    return configs.working_hours.are_open(now)


def next_opening(configs: Configs, now: datetime) -> datetime:
    """When it is time to work again, in UTC: now, where it is already.

    Minute after minute, because only so the days on which the clocks change need no rule of their own.
    """
    hours = configs.working_hours
    if hours.are_open(now):
        return now
    minute = now.astimezone(UTC).replace(second=0, microsecond=0)
    for _ in range(OPENING_MINUTES_MAX):
        minute += MINUTE
        if hours.are_open(minute):
            return minute
    raise InvalidRequest(f"The working hours from {hours.start} to {hours.end} never come.")


def working_minutes(configs: Configs, since: datetime, now: datetime, most: int) -> int:
    """How many minutes of working hours have passed since then; counted back from now, and no further than `most`."""
    passed, minute = 0, now
    while passed < most and minute - MINUTE >= since:
        minute -= MINUTE
        passed += configs.working_hours.are_open(minute)
    return passed


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        pass
    if not zoneinfo.available_timezones():
        raise SettingsError(
            "This machine has no time zones: install its package of them (tzdata), or the Python package tzdata."
        )
    raise InvalidRequest(
        f"{name!r} is no time zone: give one of the IANA list, such as Australia/Sydney or UTC."
    )


# --- checks ------------------------------------------------------------------------------------------------------


def _whole(least: int, most: int) -> Callable[[str, Any], ConfigValue]:
    def check(key: str, value: Any) -> ConfigValue:
        number = _number(key, value)
        if number != number.to_integral_value() or not least <= number <= most:
            raise InvalidRequest(f"{key} is a whole number from {least} to {most}, and not {value!r}.")
        return int(number)

    return check


def _usd(key: str, value: Any) -> ConfigValue:
    number = _number(key, value)
    if not BUDGET_USD[0] <= number <= BUDGET_USD[1]:
        raise InvalidRequest(f"{key} is from {BUDGET_USD[0]} to {BUDGET_USD[1]} dollars, and not {value!r}.")
    return number


def _number(key: str, value: Any) -> Decimal:
    """Of JSON as of the command line: 15, 0.33, "0.33"."""
    try:
        # Python reads more as a number than people write: 1_0, and the digits of other scripts.
        is_plain = not isinstance(value, bool) and str(value).isascii() and "_" not in str(value)
        number = Decimal(str(value)) if is_plain else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InvalidRequest(f"{key} is a number, and not {value!r}.")
    return number


def _hours(key: str, value: Any) -> ConfigValue:
    members = tuple(Hours.model_fields)
    if not isinstance(value, Mapping) or set(value) != set(members):
        raise InvalidRequest(
            f'{key} is a map of {", ".join(members)}: {{"start": "08:00", "end": "18:00", …}}.'
        )
    for side, at in (("start", value["start"]), ("end", value["end"])):
        is_time = isinstance(at, str) and _TIME.fullmatch(at)
        if not is_time and (side, at) != ("end", _MIDNIGHT):
            raise InvalidRequest(f"{side} of {key} is a time such as 08:00, and not {at!r}.")
    if value["start"] == value["end"]:
        raise InvalidRequest(f"{key} that end when they start are empty; all day is from 00:00 to 24:00.")
    if not isinstance(value["timezone"], str):
        raise InvalidRequest(f"timezone of {key} is a name such as Australia/Sydney.")
    zone_of(value["timezone"])
    return {name: value[name] for name in members}


def _recipients(key: str, value: Any) -> ConfigValue:
    if not isinstance(value, str) or len(value) > RECIPIENTS_CHARS_MAX:
        raise InvalidRequest(f"{key} is a text of {RECIPIENTS_CHARS_MAX} characters at most.")
    for each in _addresses(value):
        if not is_address(each):
            raise InvalidRequest(
                f"{each!r} in {key} is no address: give name@host, with commas between them."
            )
    return value


def _addresses(value: Any) -> tuple[str, ...]:
    return tuple(each.strip() for each in str(value).split(",") if each.strip())


def _minutes(time: str) -> int:
    return int(time[:2]) * 60 + int(time[3:])


CHECKS: Final[Mapping[str, Callable[[str, Any], ConfigValue]]] = {
    "polling_interval_minutes": _whole(*POLLING_MINUTES),
    "budget_ceiling_daily_usd": _usd,
    "hold_queue_minutes": _whole(*HOLD_MINUTES),
    "working_hours": _hours,
    "digest_recipients": _recipients,
}
