"""Finds the origin and the destination of a trip in a sentence, and signs of a trip with several stops.

text with day markers → tokens → mentions → roles by the words before them, the words between them, or the
remaining role
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from tripcortex.domain.planner.place_mentions import (
    FILLERS,
    HOME,
    LEADS_FROM,
    LEADS_TO,
    LEADS_WEAKLY,
    Mention,
    find_mentions,
    mark_ambiguous,
    merge_mentions,
)
from tripcortex.domain.planner.text_normalization import is_correction
from tripcortex.domain.planner.unused_words import UnusedWords, find_unused_words

_VIA_WORDS: Final = ("via", "through", "thru", "over")
_NOT_VIA: Final = frozenset("not avoid avoiding without dont never no".split())
_STOPOVER_WORDS: Final = ("stop", "stopping", "connecting", "connection", "layover")
_NEGATION: Final = re.compile(
    r"(?<!why )(?<!if )\bnot(?: to| from| in)?$|\binstead of$|\brather than(?: to| "
    r"from)?$|\b(?:was|were|been) (?:in|at)$|\bbeen to$"
)
# "I am in Denver": the trip starts there, if it goes somewhere else.
_BEING: Final = ("im", "am", "stuck", "currently", "based", "now", "already", "still")
_DEPARTURE_VERBS: Final = ("leave", "leaving", "depart", "departing", "bound", "head", "heading")


@dataclass(frozen=True)
class TripPlaces:
    """The places of a trip, as parsed from a text."""

    origin: Mention | None = None
    destination: Mention | None = None
    # Several destinations one after the other, or a return from or to somewhere else.
    is_multi_city: bool = False
    via: Mention | None = None
    # The text names both flights, so a second day is the return date.
    is_there_and_back: bool = False
    # Unused places and unknown words.
    left: UnusedWords = field(default_factory=UnusedWords)


def parse_places(text: str, role: str | None = None) -> TripPlaces:
    """Parse the places in a normalized text with day markers.

    `role` ("from" or "to") is given to a place without one, in an answer to a question about that role.
    """
    tokens = re.findall(r"@\d+|[a-z0-9]+|[,|/-]", text)
    mentions = merge_mentions(tokens, find_mentions(tokens, is_answer=role is not None))
    mentions = _settle_roles([replace(each, role=_find_role(tokens, each)) for each in mentions])
    mentions = _drop_redundant(tokens, mentions)
    joined = _join_mentions(tokens, mentions)
    named = {at for each in joined for at in range(each.start, each.end)}
    mentions = _assign_free_roles(_assign_answer_role(_name_airport(joined), role))
    left = find_unused_words(tokens, named)
    unread = tuple(each.words for each in mentions if each.role is None)
    return replace(_assign_places(mentions), left=replace(left, phrases=(*unread, *left.phrases)))


# --- roles --------------------------------------------------------------------------------------------------


def _find_role(tokens: list[str], mention: Mention) -> str | None:
    """Return the role by the words before the mention: to, from, in, via, back_to, back_from, not, not_over.

    Return the mention's own role if the words give none.
    """
    at = mention.start
    while at and tokens[at - 1] in FILLERS:
        at -= 1
    before, second = (tokens[at - 1] if at else ""), (tokens[at - 2] if at > 1 else "")
    if before in _VIA_WORDS and _NOT_VIA & set(tokens[max(0, at - 6) : at - 1]):
        return "not_over"
    if _is_negated(tokens[:at]):
        return "not"
    if before in _VIA_WORDS or second in _STOPOVER_WORDS:
        return "via"
    if before in LEADS_TO | LEADS_FROM and second in ("return", "returning", "back", "home"):
        return "back_to" if before in LEADS_TO else "back_from"
    if before in LEADS_FROM or (before == "of" and second == "out") or before in ("leave", "depart"):
        return "from"
    if before in LEADS_TO or (before == "for" and second in _DEPARTURE_VERBS):
        return "to"
    after = tokens[mention.end : mention.end + 2]
    if after[:1] == ["out"] and after != ["out", "of"] and before in ("", "|", ","):
        return "out"
    if before in LEADS_WEAKLY and second in _BEING:
        return "being"
    if before in LEADS_WEAKLY:
        return "from" if "from" in tokens[max(0, at - 4) : at - 1] else "in"
    return mention.role


def _settle_roles(mentions: list[Mention]) -> list[Mention]:
    """Return the mentions with the roles "out" and "being" settled by the other places.

    "Berlin meeting, London out on Monday" leaves from London; "London out on Monday" goes there. "I am in
    Denver, get me to Chicago" leaves from Denver; "I am in Denver on Monday" goes there.
    """
    has_others = {
        each.role: any(other.role in ("to", "in", "back_to", None) for other in mentions if other is not each)
        for each in mentions
    }
    others = {"out": None, "being": "in"}
    return [
        replace(each, role="from" if has_others[each.role] else others[each.role])
        if each.role in others
        else each
        for each in mentions
    ]


def _is_negated(before: list[str]) -> bool:
    """Return whether the last words before a place exclude it: "not to", "instead of", "I was in"."""
    words = " ".join(before[-4:])
    return bool(_NEGATION.search(words))


def _is_own_office(tokens: list[str], mention: Mention) -> bool:
    """Return whether the place is that of an office which somebody is from: "from the Taipei office"."""
    is_office = tokens[mention.end : mention.end + 1] in (
        [word] for word in ("office", "team", "branch", "site", "hub")
    )
    return is_office and tokens[max(0, mention.start - 2) : mention.start] in (
        ["from", "the"],
        ["from", "our"],
    )


def _is_return_home(tokens: list[str], mention: Mention) -> bool:
    """Return whether "home" is followed by a day that is not the first one of the text."""
    following = [each for each in tokens[mention.end : mention.end + 2] if each.startswith("@")]
    return bool(following) and following[0] != "@0"


def _drop_redundant(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """Drop "home" and unknown names if a known place has the same role."""
    offices = [each for each in mentions if _is_own_office(tokens, each)]
    if len(offices) < sum(each.role == "from" for each in mentions):
        # An employee from the Taipei office may well leave from Hong Kong.
        mentions = [each for each in mentions if each not in offices]
    known = {each.role for each in mentions if each.places and each.places != (HOME,)}
    if {"in", None} & known:
        # "In Denver, fly out on Monday, fly home on Friday".
        mentions = [each for each in mentions if each.places != (HOME,) or not _is_return_home(tokens, each)]
    return [each for each in mentions if (each.places and each.places != (HOME,)) or each.role not in known]


def _assign_places(mentions: list[Mention]) -> TripPlaces:
    """Pick origin and destination from the mentions' roles; detect several stops and a return flight."""
    via = next((each for each in mentions if each.role == "via"), None)
    froms, tos, backs = _split_legs(mentions)
    if len(froms) == len(tos) == 2 and _is_same_place(froms[0], tos[1]) and _is_same_place(froms[1], tos[0]):
        return TripPlaces(froms[0], tos[0], via=via, is_there_and_back=True)
    if len(froms) == len(tos) == 1 and _is_same_place(froms[0], tos[0]) and froms[0].start > tos[0].start:
        # "Into Phoenix on Monday and out of Phoenix on Friday".
        return TripPlaces(None, tos[0], via=via, is_there_and_back=True)
    if len(froms) == 1 and len(tos) == 2 and _is_same_place(froms[0], tos[1]):
        # "Boston - Austin - Boston".
        return TripPlaces(froms[0], tos[0], via=via, is_there_and_back=True)
    strays = [each for each in backs if not any(_is_same_place(each, known) for known in (*froms, *tos))]
    is_multi = len(tos) > 1 or len(froms) > 1 or any(each.role == "back_from" or froms for each in strays)
    origin = froms[0] if froms else _find_possible_origin(mentions, tos, strays)
    return TripPlaces(origin, tos[0] if tos else None, is_multi, via)


def _assign_answer_role(mentions: list[Mention], role: str | None) -> list[Mention]:
    """Give the only place of an answer the role that the question was about."""
    if role and len(mentions) == 1 and mentions[0].role in (None, "in"):
        return [replace(mentions[0], role=role)]
    return mentions


def _split_legs(mentions: list[Mention]) -> tuple[list[Mention], list[Mention], list[Mention]]:
    """Return the origins, the destinations and the places of the return flight."""
    froms, tos = _select_role(mentions, "from"), _select_role(mentions, "to") or _select_role(mentions, "in")
    back_to, back_from = _select_role(mentions, "back_to"), _select_role(mentions, "back_from")
    if tos and tos[0].places == (HOME,):
        # The flight home is the outbound flight, although its places are worded like those of a return
        # flight.
        return froms or back_from, back_to or tos, []
    if not tos and not froms and back_to:
        return back_from, back_to, []
    return froms, tos, [*back_to, *back_from]


def _find_possible_origin(
    mentions: list[Mention], tos: list[Mention], strays: list[Mention]
) -> Mention | None:
    """Return a place to ask about as the origin, marked ambiguous, or None.

    Examples: "I am in Denver and need to get to Chicago", "and return to New York".
    """
    maybe = [*strays, *(each for each in _select_role(mentions, "in") if tos and each.start < tos[0].start)]
    maybe = [each for each in maybe if each.places and not any(_is_same_place(each, known) for known in tos)]
    return replace(maybe[0], places=mark_ambiguous(maybe[0].places)) if maybe else None


def _join_mentions(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """Assign roles by the words between mentions: "X to Y", "X - Y".

    "X or Y" becomes one ambiguous mention; "X and Y" share a role.
    """
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
            # "Into Chicago on Friday and out of Milwaukee": the return flight.
            done.append(replace(mention, role="back_from"))
        elif link == [] and last.is_code and mention.is_code and last.role in (None, "from"):
            done[-1] = replace(last, role="from")
            done.append(replace(mention, role="to"))
        elif is_correction(link):
            done[-1] = replace(mention, role=last.role or mention.role)
        elif "then" in link and last.role in (None, "to", "in") and mention.role in (None, "to", "in"):
            done[-1] = replace(last, role="to")
            done.append(replace(mention, role="to"))
        elif link in (["-"], ["to"], ["/"]) and (
            last.role in (None, "in", "from") or (last.role == "back_from" and len(done) == 1)
        ):
            done[-1] = replace(last, role="from")
            done.append(replace(mention, role="to"))
        elif _is_alternative(last, mention, link) and set(link) <= {",", "or", "to", "in", "from"}:
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


def _is_alternative(last: Mention, mention: Mention, link: list[str]) -> bool:
    """Return True for "X or Y", and for "X, Y" if neither has a role."""
    if last.role is None and mention.role is None and link == [","]:
        return True
    return mention.role in (None, last.role) and "or" in link


def _name_airport(mentions: list[Mention]) -> list[Mention]:
    """Return the mentions, each city as its airport that is named apart: "New York, … LaGuardia"."""
    done = list(mentions)
    for each in mentions:
        city = next(
            (at for at, other in enumerate(done) if other != each and each.airports < other.airports), None
        )
        is_named = city is not None and each.role in (None, done[city].role)
        if is_named and city is not None and len(each.airports) == 1:
            done[city] = replace(done[city], places=each.places)
            done.remove(each)
    return done


def _assign_free_roles(mentions: list[Mention]) -> list[Mention]:
    """Give places without a role the remaining one: "Boston Denver Friday", "Chicago on Friday"."""
    free = [each for each in mentions if each.role is None]
    if len(free) == 2 and free[0].places == free[1].places and free[0].places:
        # One place, named twice.
        mentions = [each for each in mentions if each != free[0]]
        free = free[1:]
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


def _select_role(mentions: list[Mention], role: str) -> list[Mention]:
    """Return the mentions with a role, each place once."""
    found: list[Mention] = []
    for each in mentions:
        if each.role == role and not any(_is_same_place(each, other) for other in found):
            found.append(each)
    return found


def _is_same_place(one: Mention, other: Mention) -> bool:
    """Return whether the mentions share an airport or have the same words."""
    return bool(one.airports & other.airports) or (one.words == other.words)
