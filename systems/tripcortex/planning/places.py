"""The places of a trip: which mention is where from, which where to, and what makes it more than one trip.

text with days as markers → tokens → mentions → roles by the words before them, by what joins them, by what is left
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from tripcortex.planning.leftovers import Leftovers, left_over
from tripcortex.planning.mentions import (
    FILL,
    HOME,
    LEADS_FROM,
    LEADS_TO,
    LEADS_WEAKLY,
    Mention,
    in_doubt,
    mentions_in,
    merged,
)

_OVER: Final = ("via", "through", "thru", "over")
_STOPPING: Final = ("stop", "stopping", "connecting", "connection", "layover")
_DENIED: Final = re.compile(
    r"(?<!why )(?<!if )\bnot(?: to| from| in)?$|\binstead of$|\brather than(?: to| from)?$|\b(?:was|were|been) (?:in|at)$|\bbeen to$"
)
_BOUND: Final = ("leave", "leaving", "depart", "departing", "bound", "head", "heading")


@dataclass(frozen=True)
class Places:
    origin: Mention | None = None
    destination: Mention | None = None
    # Several destinations one after the other, or a return from or to somewhere else.
    is_multi_city: bool = False
    via: Mention | None = None
    # There and back in so many words, so that a second day is the return's.
    is_there_and_back: bool = False
    # What was not used: places that have no part in the trip, and words that nobody knows.
    left: Leftovers = field(default_factory=Leftovers)


def read_places(text: str, role: str | None = None) -> Places:
    """`role` is that of a place without one, in an answer to a question about it."""
    tokens = re.findall(r"@\d+|[a-z0-9]+|[,|/-]", text)
    mentions = merged(tokens, mentions_in(tokens, is_answer=role is not None))
    mentions = _without_second([replace(each, role=_role(tokens, each)) for each in mentions])
    mentions = _placed(_answered(_joined(tokens, mentions), role))
    named = {at for each in mentions for at in range(each.start, each.end)}
    left = left_over(tokens, named)
    unread = tuple(each.words for each in mentions if each.role is None)
    return replace(_assigned(mentions), left=replace(left, phrases=(*unread, *left.phrases)))


# --- roles -------------------------------------------------------------------------------------------------------


def _role(tokens: list[str], mention: Mention) -> str | None:
    at = mention.start
    while at and tokens[at - 1] in FILL:
        at -= 1
    before, second = (tokens[at - 1] if at else ""), (tokens[at - 2] if at > 1 else "")
    if before in _OVER and second in ("not", "avoid", "avoiding", "without"):
        return "not_over"
    if _is_denied(tokens[:at]):
        return "not"
    if before in _OVER or second in _STOPPING:
        return "via"
    if before in LEADS_TO | LEADS_FROM and second in ("return", "returning", "back", "home"):
        return "back_to" if before in LEADS_TO else "back_from"
    if before in LEADS_FROM or (before == "of" and second == "out") or before in ("leave", "depart"):
        return "from"
    if before in LEADS_TO or (before == "for" and second in _BOUND):
        return "to"
    if before in LEADS_WEAKLY:
        return "from" if "from" in tokens[max(0, at - 4) : at - 1] else "in"
    return mention.role


def _is_denied(before: list[str]) -> bool:
    """ "Not Chicago but Denver", "not to Chicago", "instead of Chicago"; and where somebody only was: "I was in Chicago"."""
    words = " ".join(before[-4:])
    return bool(_DENIED.search(words))


def _without_second(mentions: list[Mention]) -> list[Mention]:
    """Home, and unknown names beside known ones of the same role, are no places of their own."""
    known = {each.role for each in mentions if each.places and each.places != (HOME,)}
    return [each for each in mentions if (each.places and each.places != (HOME,)) or each.role not in known]


def _assigned(mentions: list[Mention]) -> Places:
    via = next((each for each in mentions if each.role == "via"), None)
    froms, tos, backs = _legs(mentions)
    if len(froms) == len(tos) == 2 and _same(froms[0], tos[1]) and _same(froms[1], tos[0]):
        return Places(froms[0], tos[0], via=via, is_there_and_back=True)
    strays = [each for each in backs if not any(_same(each, known) for known in (*froms, *tos))]
    is_multi = len(tos) > 1 or len(froms) > 1 or any(each.role == "back_from" or froms for each in strays)
    origin = froms[0] if froms else _origin_in_doubt(mentions, tos, strays)
    return Places(origin, tos[0] if tos else None, is_multi, via)


def _answered(mentions: list[Mention], asked: str | None) -> list[Mention]:
    """The one place of an answer has the role that was asked about."""
    if asked and len(mentions) == 1 and mentions[0].role in (None, "in"):
        return [replace(mentions[0], role=asked)]
    return mentions


def _legs(mentions: list[Mention]) -> tuple[list[Mention], list[Mention], list[Mention]]:
    """Where from, where to, and what is said of the way back."""
    froms, tos = _of(mentions, "from"), _of(mentions, "to") or _of(mentions, "in")
    back_to, back_from = _of(mentions, "back_to"), _of(mentions, "back_from")
    if tos and tos[0].places == (HOME,):
        # Going home is the trip itself, and the place that is called home or left has the words of a way back.
        return froms or back_from, back_to or tos, []
    if not tos and not froms and back_to:
        return back_from, back_to, []
    return froms, tos, [*back_to, *back_from]


def _origin_in_doubt(mentions: list[Mention], tos: list[Mention], strays: list[Mention]) -> Mention | None:
    """Perhaps where it begins, so it is asked: "I am in Denver and need to get to Chicago", "and return to New York"."""
    maybe = [*strays, *(each for each in _of(mentions, "in") if tos and each.start < tos[0].start)]
    maybe = [each for each in maybe if each.places and not any(_same(each, known) for known in tos)]
    return replace(maybe[0], places=in_doubt(maybe[0].places)) if maybe else None


def _joined(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """By what joins them: "X to Y", "X - Y"; "X or Y" is one mention to be asked about; "X and Y" share their role."""
    done: list[Mention] = []
    for mention in mentions:
        last = done[-1] if done else None
        link = tokens[last.end : mention.start] if last else []
        if last is None:
            done.append(mention)
        elif (
            (last.role, mention.role) == ("to", "from")
            and "and" in link
            and any(each[0] == "@" for each in link)
        ):
            # "Into Chicago on Friday and out of Milwaukee": the way back.
            done.append(replace(mention, role="back_from"))
        elif link in (["-"], ["to"], ["/"]) and last.role in (None, "in", "from"):
            done[-1] = replace(last, role="from")
            done.append(replace(mention, role="to"))
        elif _is_choice(last, mention, link) and set(link) <= {",", "or", "to", "in", "from"}:
            words = f"{last.words} or {mention.words}"
            done[-1] = replace(last, words=words, places=(*last.places, *mention.places), end=mention.end)
        elif (
            mention.role is None
            and link
            and set(link) <= {",", "and", "then", "/"}
            and last.role not in (None, "not")
        ):
            done.append(replace(mention, role=last.role))
        else:
            done.append(mention)
    return done


def _is_choice(last: Mention, mention: Mention, link: list[str]) -> bool:
    """As in "X or Y"; and "X, Y" where nothing says what each is for."""
    if last.role is None and mention.role is None and link == [","]:
        return True
    return mention.role in (None, last.role) and "or" in link


def _placed(mentions: list[Mention]) -> list[Mention]:
    """Places without a role take the one that is left: "Boston Denver Friday", "Chicago on Friday"."""
    free = [each for each in mentions if each.role is None]
    has_to = any(each.role in ("to", "in") for each in mentions)
    has_from = any(each.role == "from" for each in mentions)
    given: dict[int, str] = {}
    if not has_to and free:
        given[free[-1].start] = "to"
        if len(free) == 2 and not has_from:
            given[free[0].start] = "from"
    elif has_to and not has_from and len(free) == 1 and free[0] == mentions[0]:
        given[free[0].start] = "from"
    return [replace(each, role=each.role or given.get(each.start)) for each in mentions]


def _of(mentions: list[Mention], role: str) -> list[Mention]:
    """Those of a role, each place once."""
    found: list[Mention] = []
    for each in mentions:
        if each.role == role and not any(_same(each, other) for other in found):
            found.append(each)
    return found


def _same(one: Mention, other: Mention) -> bool:
    return bool(one.airports & other.airports) or (one.words == other.words)
