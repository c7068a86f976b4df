"""Matches trips with the scopes of rules: certainly within, certainly outside, or not certain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from functools import cached_property
from typing import Final

from tripcortex.domain.policy_rules.distances import (
    compute_distance_km,
    estimate_flight_hours,
    get_country,
    is_airport,
)
from tripcortex.domain.policy_rules.extraction.vocabulary import OUTSIDE_LADDER, normalize_level
from tripcortex.domain.policy_rules.regions import contains_airport, is_within
from tripcortex.domain.policy_rules.rules import ORDINARY, Range, RoutePattern, RuleScope
from tripcortex.domain.policy_rules.trips import Trip

# An estimate of hours is off by less than this part of it, and by at least these hours.
_HOURS_ERROR: Final = Decimal("0.08")
_HOURS_ERROR_MIN: Final = Decimal("0.25")
SEASON_ENDS: Final = 2
_DISTANCE_ERROR: Final = Decimal("0.02")


class Match(IntEnum):
    """Whether a trip is within a scope. `unclear` may restrict a trip, and never permits one."""

    outside = 0
    unclear = 1
    within = 2


@dataclass(frozen=True)
class TripFacts:
    """The facts of a trip that scopes depend on, computed once."""

    trip: Trip

    @cached_property
    def notice_days(self) -> int:
        return (self.trip.depart - self.trip.booked_on).days

    @cached_property
    def is_return(self) -> bool:
        return self.trip.return_date is not None

    @cached_property
    def is_domestic(self) -> bool:
        return get_country(self.trip.origin) == get_country(self.trip.destination)

    @cached_property
    def hours(self) -> tuple[Range, ...]:
        """Return the hours of each direction as a range: known hours are exact."""
        known = [self.trip.outbound_hours, *([self.trip.inbound_hours] if self.is_return else [])]
        return tuple(self._estimate_hours() if each is None else Range(low=each, high=each) for each in known)

    def _estimate_hours(self) -> Range:
        if not (is_airport(self.trip.origin) and is_airport(self.trip.destination)):
            return Range(low=Decimal(0), high=Decimal(24))
        hours = estimate_flight_hours(self.trip.origin, self.trip.destination)
        error = max(_HOURS_ERROR_MIN, hours * _HOURS_ERROR)
        return Range(low=hours - error, high=hours + error)

    @cached_property
    def distance_km(self) -> Range:
        km = Decimal(compute_distance_km(self.trip.origin, self.trip.destination))
        return Range(low=km * (1 - _DISTANCE_ERROR), high=km * (1 + _DISTANCE_ERROR))


def match_scope(scope: RuleScope, facts: TripFacts) -> Match:
    """Return whether the trip is within the scope."""
    trip = facts.trip
    checks: tuple[Callable[[], Match], ...] = (
        lambda: _match_routes(scope, facts),
        lambda: (
            min((_match_range(scope.hours, each) for each in facts.hours), default=Match.within)
            if _is_uniform(scope.hours, facts.hours)
            else Match.unclear
        ),
        lambda: (
            Match.within if scope.distance_km.is_open else _match_range(scope.distance_km, facts.distance_km)
        ),
        lambda: Match.within if facts.notice_days in scope.days_ahead else Match.outside,
        lambda: _match_levels(scope, trip.employee_level),
        lambda: Match.within if not scope.cabins or trip.cabin in scope.cabins else Match.outside,
        lambda: _match_carriers(scope, trip),
        lambda: _match_departure(scope.departs, trip),
        lambda: _match_price(scope.price_usd, trip),
        lambda: _match_nights(scope.nights, trip),
        lambda: _match_days(scope, trip),
        lambda: (
            Match.within
            if scope.trip is None or (scope.trip == "round_trip") is facts.is_return
            else Match.outside
        ),
    )
    result = Match.within
    for check in checks:
        result = min(result, check())
        if result is Match.outside:
            break
    return result


def _is_uniform(span: Range, hours: Iterable[Range]) -> bool:
    """Return True unless one direction is within the span and the other outside."""
    found = {_match_range(span, each) for each in hours}
    return not {Match.within, Match.outside} <= found


def _match_range(span: Range, value: Range) -> Match:
    """Return whether a value that lies between two numbers is within a span."""
    if span.is_open:
        return Match.within
    low, high = value.low or Decimal(0), value.high or Decimal(0)
    if low in span and high in span:
        return Match.within
    is_below = span.low is not None and (high < span.low or (high == span.low and not span.low_included))
    is_above = span.high is not None and (low > span.high or (low == span.high and not span.high_included))
    return Match.outside if is_below or is_above else Match.unclear


def _match_routes(scope: RuleScope, facts: TripFacts) -> Match:
    if any(match_route(route, facts) for route in scope.except_routes):
        return Match.outside
    if scope.routes and not any(match_route(route, facts) for route in scope.routes):
        return Match.outside
    return Match.within


def match_route(route: RoutePattern, facts: TripFacts) -> bool:
    """Return True if the trip's route fits the pattern, in either direction unless it is directed."""
    if route.is_domestic is not None and route.is_domestic is not facts.is_domestic:
        return False
    origin, destination = facts.trip.origin, facts.trip.destination
    there = _is_at(route.one, origin) and _is_at(route.other, destination)
    back = not route.is_directed and _is_at(route.one, destination) and _is_at(route.other, origin)
    return there or back


def _is_at(places: tuple[str, ...], airport: str) -> bool:
    return not places or any(contains_airport(token, airport) for token in places)


def _match_levels(scope: RuleScope, level: str | None) -> Match:
    """Return whether the employee has one of the levels.

    Without a level the employee is an ordinary one; where the scope does not say whether those are meant, it
    is unclear.
    """
    included = {normalize_level(each) for each in scope.levels}
    excluded = {normalize_level(each) for each in scope.except_levels}
    if level is None and ORDINARY not in included | excluded:
        if included and included <= OUTSIDE_LADDER:
            return Match.outside
        return Match.unclear if included or excluded - OUTSIDE_LADDER else Match.within
    names = {ORDINARY} if level is None else _list_level_names(level)
    if names & excluded or (included and not names & included):
        return Match.outside
    return Match.within


def _list_level_names(level: str) -> set[str]:
    """Return the names in a trip's level: "L3 (Manager)" has two."""
    parts = [level, *level.replace(")", "").replace("/", "(").replace(",", "(").split("(")]
    return {normalize_level(part) for part in parts if part.strip()}


def _match_carriers(scope: RuleScope, trip: Trip) -> Match:
    return (
        Match.within if not scope.carriers or set(trip.all_carriers) & set(scope.carriers) else Match.outside
    )


def _match_price(span: Range, trip: Trip) -> Match:
    """Return whether the price is within the range. Without a price nothing is said of it."""
    if span.is_open:
        return Match.within
    return Match.within if trip.price_usd is not None and trip.price_usd in span else Match.outside


def _match_days(scope: RuleScope, trip: Trip) -> Match:
    """Return whether one of the trip's flights leaves in the season, and one on the days of the week."""
    days = [each for each in (trip.depart, trip.return_date) if each is not None]
    if scope.weekdays and not any(each.weekday() in scope.weekdays for each in days):
        return Match.outside
    if len(scope.season) == SEASON_ENDS:
        first, last = scope.season
        dates = [f"{each:%m-%d}" for each in days]
        is_split = first > last
        if not any((first <= each or each <= last) if is_split else first <= each <= last for each in dates):
            return Match.outside
    return Match.within


def _match_nights(span: Range, trip: Trip) -> Match:
    """Return whether the nights are within the range; a one-way trip has an unknown number."""
    if span.is_open:
        return Match.within
    if trip.return_date is None:
        return Match.outside
    return Match.within if (trip.return_date - trip.depart).days in span else Match.outside


def _match_departure(departs: Range, trip: Trip) -> Match:
    """Return whether a departure is within the hours, which may span midnight.

    Without a time it is outside.
    """
    if departs.is_open or departs.low is None or departs.high is None:
        return Match.within
    times = [each for each in (trip.departs_at, trip.returns_at) if each is not None]
    hours = [Decimal(each.hour) + Decimal(each.minute) / 60 for each in times]
    if departs.low <= departs.high:
        found = [departs.low <= hour <= departs.high for hour in hours]
    else:
        found = [hour >= departs.low or hour <= departs.high for hour in hours]
    return Match.within if found and all(found) else Match.unclear if any(found) else Match.outside


def is_narrower(scope: RuleScope, other: RuleScope) -> bool:
    """Return True if every trip of the first scope is in the second, and not the reverse."""
    return scope != other and _is_part(scope, other) and not _is_part(other, scope)


def _is_part(scope: RuleScope, other: RuleScope) -> bool:
    ranges = ("hours", "distance_km", "days_ahead", "departs", "price_usd", "nights")
    return (
        all(_is_subrange(getattr(scope, name), getattr(other, name)) for name in ranges)
        and _is_route_part(scope, other)
        and _is_subset(scope.levels, other.levels)
        and _is_subset(scope.cabins, other.cabins)
        and _is_subset(scope.carriers, other.carriers)
        and (
            not other.except_levels
            or set(other.except_levels) <= set(scope.except_levels)
            or bool(scope.levels)
        )
        and other.trip in (None, scope.trip)
        and other.season in ((), scope.season)
        and _is_subset(scope.weekdays, other.weekdays)
    )


def _is_subset(part: tuple[object, ...], whole: tuple[object, ...]) -> bool:
    return not whole or (bool(part) and set(part) <= set(whole))


def _is_subrange(span: Range, other: Range) -> bool:
    if other.is_open:
        return True
    is_low = other.low is None or (
        span.low is not None
        and (
            span.low > other.low or (span.low == other.low and (other.low_included or not span.low_included))
        )
    )
    is_high = other.high is None or (
        span.high is not None
        and (
            span.high < other.high
            or (span.high == other.high and (other.high_included or not span.high_included))
        )
    )
    return is_low and is_high


def _is_route_part(scope: RuleScope, other: RuleScope) -> bool:
    if any(route not in scope.except_routes for route in other.except_routes) and not scope.routes:
        return False
    if not other.routes:
        return True
    return bool(scope.routes) and all(
        any(_is_subroute(one, whole) for whole in other.routes) for one in scope.routes
    )


def _is_subroute(route: RoutePattern, other: RoutePattern) -> bool:
    if other.is_domestic is not None and route.is_domestic is not other.is_domestic:
        return False
    straight = _are_within(route.one, other.one) and _are_within(route.other, other.other)
    return straight or (_are_within(route.one, other.other) and _are_within(route.other, other.one))


def _are_within(places: tuple[str, ...], others: tuple[str, ...]) -> bool:
    return not others or (
        bool(places) and all(any(is_within(each, other) for other in others) for each in places)
    )
