"""The places in a sentence and their roles: where from, where to, and what cannot be told.

    text with days as markers → tokens → mentions (the longest name at each place) → roles by the words around them

A place is never taken for certain that was not named: what may be a typo, a state or an unknown name stays a mention that
says so, and `deciding` asks.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from tripcortex.planning import gazetteer
from tripcortex.planning.gazetteer import CODE_LETTERS, NAME_WORDS_MAX, Place, Region

HOME: Final = Place("home", "", "", ())


@dataclass(frozen=True)
class Mention:
    """A place as it was said. Several `places` are a question; none is one as well."""

    words: str
    places: tuple[Place, ...]
    start: int = 0
    end: int = 0
    role: str | None = None
    # Read in spite of a typo.
    is_near: bool = False
    # A state or a country, where a city is needed.
    region: Region | None = None

    @property
    def airports(self) -> frozenset[str]:
        return frozenset(code for each in self.places for code in each.airports)


@dataclass(frozen=True)
class Places:
    origin: Mention | None = None
    destination: Mention | None = None
    # Several destinations one after the other, or a return from or to somewhere else.
    is_multi_city: bool = False
    via: Mention | None = None
    # There and back in so many words, so that a second day is the return's.
    is_there_and_back: bool = False
    unread: int = field(default=0)


def read_places(text: str, role: str | None = None) -> Places:
    """`role` is that of a place without one, in an answer to a question about it."""
    tokens = re.findall(r"@\d+|[a-z0-9]+|[,|/-]", text)
    mentions = _merged(tokens, _mentions(tokens, is_answer=role is not None))
    mentions = _without_second(tokens, [replace(each, role=_role(tokens, each)) for each in mentions])
    return _assigned(tokens, mentions, role)


# --- mentions ----------------------------------------------------------------------------------------------------

# Names of cities and codes of airports that are words as well: places only right after a word that leads to one.
_WORDS: Final = frozenset(
    "nice mobile split male cork bari reading bath orange lincoln jackson columbia victoria florence georgetown regina leon "
    "madison midland independence la kl kennedy hobby logan bush reagan pearson midway faro ontario bergamo nassau augusta "
    "lexington providence salvador darwin phoenix".split()
) - {
    "phoenix",
    "ontario",
    "madison",
    "lexington",
    "lincoln",
    "jackson",
    "columbia",
    "florence",
    "providence",
    "nassau",
}
_NO_CODES: Final = frozenset(
    "the and for see get fly buy can may any all one two our out set put let has had his her its you are was ask bed big bus "
    "but day did due end far few fit fun gym had how job key law lot low man map mad met new not now off old own pay per pin "
    "pop red run sat sun mon tue wed thu fri say sea she sit six sky son tax ten top try use via war way who why win yes yet "
    "jan feb mar apr jun jul aug sep oct nov dec ham bud dub pit fat lit pie rap cow ant bar bag car cut dad mum mom den del "
    "min max per los las san rio add age ago aid air bad bet bit box boy eat ear egg eye fan fee gap gas god guy hat hit hot "
    "ice ill kid leg lie lip log mix mud net nor nut odd oil pan pet pot raw rid row sad saw sex ski tea tie tip toe too toy "
    "van vet via wet win won work pal cat dog ceo usd eur biz hub hey him ist cab mid pre".split()
)
# After these a code may be one of the words above, if airlines serve it: "to SEA".
_LEADING: Final = frozenset("to from into via - /".split())
_VERBS: Final = frozenset(
    "fly go get book travel be visit attend see meet have leave return returning come arrive depart reserve find make take "
    "plan arrange stay work the a an my our his her their this that your do give give present speak talk help know ask buy "
    "and then me you it them there here everyone arrange schedule catch reach join discuss check show tell say keep save use "
    "spend pay try look start begin end finish celebrate relax watch learn train set print approve skip ignore "
    "one economy business first which where when by no more than avoid prefer".split()
)
_GO: Final = frozenset("fly go get travel flight me head flying heading".split())
_LEADS_TO: Final = frozenset("to into visit visiting towards toward destination reach".split())
_LEADS_FROM: Final = frozenset("from leaving departing origin".split())
_LEADS_WEAKLY: Final = frozenset("in at near around".split())
_FILL: Final = frozenset("the downtown city airport sunny beautiful greater".split())
_BREAKS: Final = frozenset(", | / - on at for in to from with and or by via".split())


def _mentions(tokens: list[str], *, is_answer: bool) -> list[Mention]:
    found: list[Mention] = []
    at = 0
    while at < len(tokens):
        mention = _exact(tokens, at, is_answer=is_answer) or _slot(tokens, at)
        if mention is None:
            at += 1
        else:
            found.append(mention)
            at = mention.end
    if not found:
        found = _stray(tokens)
    return found


def _exact(tokens: list[str], at: int, *, is_answer: bool) -> Mention | None:
    """The longest name that begins here; then a code."""
    is_led = _is_led(tokens, at) or is_answer
    if tokens[at] == "home" and at and tokens[at - 1] in _GO:
        return Mention("home", (HOME,), at, at + 1, role="to")
    for name, end in _phrases(tokens, at):
        places = gazetteer.cities(name)
        one = gazetteer.airport_named(name)
        if (places or one) and (name not in _WORDS or is_led):
            return _qualified(tokens, Mention(name, places or ((one,) if one else ()), at, end))
    return _code(tokens, at, is_led=is_led)


def _phrases(tokens: list[str], at: int) -> list[tuple[str, int]]:
    """Runs of words that begin here, the longest first; a hyphen may join them."""
    found: list[tuple[str, int]] = []
    words: list[str] = []
    end = at
    while end < len(tokens) and len(words) < NAME_WORDS_MAX:
        if tokens[end].isalnum():
            words.append(tokens[end])
            found.append((" ".join(words), end + 1))
        elif tokens[end] != "-" or not words:
            break
        end += 1
    return found[::-1]


def _qualified(tokens: list[str], mention: Mention) -> Mention:
    """With the state or country that stands behind a city, if it fits; if it fits none, no city of ours is meant."""
    at = mention.end + (tokens[mention.end : mention.end + 1] == [","])
    for name, end in _phrases(tokens, at):
        named = gazetteer.regions(name)
        if not named or (len(name) == 2 and not _ends_at(tokens, end)):
            continue
        fitting = gazetteer.meant(mention.places, named)
        if fitting:
            return replace(mention, words=f"{mention.words}, {name}", places=fitting, end=end)
        if len(name) > 2 and not gazetteer.cities(name):
            fields = gazetteer.meant(gazetteer.airfields(mention.words), named)
            return Mention(f"{mention.words}, {name}", _doubled(fields), mention.start, end)
    return replace(mention, places=gazetteer.meant(mention.places))


def _ends_at(tokens: list[str], end: int) -> bool:
    """Nothing but a new thought follows: "Portland OR |", not "Portland or Seattle"."""
    return end >= len(tokens) or tokens[end] in _BREAKS or tokens[end].startswith("@")


def _doubled(places: tuple[Place, ...]) -> tuple[Place, ...]:
    """What only the large table knows is asked about, even where it is one."""
    return (*places, *places[:1]) if places else ()


def _code(tokens: list[str], at: int, *, is_led: bool) -> Mention | None:
    code = tokens[at]
    if len(code) != CODE_LETTERS or not code.isalpha():
        return None
    before = tokens[at - 1] if at else ""
    is_word = code in _NO_CODES
    if gazetteer.is_served(code):
        takes = (
            not is_word or (before in _LEADING and _ends_at(tokens, at + 1)) or (is_led and len(tokens) == 1)
        )
    else:
        takes = is_led and not is_word and not gazetteer.cities(code)
    if is_word and code in ("the", "and", "for", "see", "get", "fly", "buy", "can", "may", "any", "all"):
        takes = False
    one = gazetteer.airport(code) if takes else None
    return Mention(code.upper(), (one,), at, at + 1) if one else None


def _is_led(tokens: list[str], at: int) -> bool:
    while at and tokens[at - 1] in _FILL:
        at -= 1
    before = tokens[at - 1] if at else ""
    return before in _LEADS_TO | _LEADS_FROM | _LEADS_WEAKLY | {"-", "/", "for", "via"} and before != ""


def _slot(tokens: list[str], at: int) -> Mention | None:
    """Something that must be a place by what leads to it, though none of this name is known."""
    before = tokens[at - 1] if at else ""
    if before not in _LEADS_TO | _LEADS_FROM | _LEADS_WEAKLY or not tokens[at].isalpha():
        return None
    if tokens[at] in _VERBS | _FILL:
        return None
    phrases = _phrases(tokens, at)
    for name, end in phrases:
        if near := gazetteer.near(name):
            return Mention(name, near, at, end, is_near=True)
    if before in _LEADS_WEAKLY:
        return None
    for name, end in phrases:
        if named := gazetteer.regions(name):
            return Mention(name, (), at, end, region=named[0])
        if fields := gazetteer.airfields(name):
            return Mention(name, _doubled(fields), at, end)
    if tokens[at] == "home":
        return Mention("home", (HOME,), at, at + 1)
    return Mention(tokens[at], (), at, at + 1)


def _stray(tokens: list[str]) -> list[Mention]:
    """No place at all: a word that is nearly a city's name is worth a question."""
    for at, token in enumerate(tokens):
        for name, end in _phrases(tokens, at):
            if token not in _VERBS and (near := gazetteer.near(name)):
                return [Mention(name, _doubled(near), at, end)]
    return []


def _merged(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """ "London Heathrow", "Chicago (ORD)", "JFK in New York": one place, the airport."""
    merged: list[Mention] = []
    for mention in mentions:
        last = merged[-1] if merged else None
        between = set(tokens[last.end : mention.start]) if last else set()
        if last and between <= {"|", ",", "in", "-"} and last.airports & mention.airports:
            inner = min((last, mention), key=lambda each: len(each.airports))
            if inner.airports <= last.airports | mention.airports and len(inner.airports) == 1:
                merged[-1] = replace(inner, start=last.start, end=mention.end)
                continue
        merged.append(mention)
    return merged


# --- roles -------------------------------------------------------------------------------------------------------


def _role(tokens: list[str], mention: Mention) -> str | None:
    at = mention.start
    while at and tokens[at - 1] in _FILL:
        at -= 1
    before, second = (tokens[at - 1] if at else ""), (tokens[at - 2] if at > 1 else "")
    if before in ("via", "through", "thru") or second in (
        "stop",
        "stopping",
        "connecting",
        "connection",
        "layover",
    ):
        return "via"
    if before in _LEADS_TO | _LEADS_FROM and second in ("return", "returning", "back", "home"):
        return "back_to" if before in _LEADS_TO else "back_from"
    if before in _LEADS_FROM or (before == "of" and second == "out") or before in ("leave", "depart"):
        return "from"
    if before in _LEADS_TO or (
        before == "for" and second in ("leave", "leaving", "depart", "departing", "bound", "head", "heading")
    ):
        return "to"
    if before in _LEADS_WEAKLY:
        return "from" if "from" in tokens[max(0, at - 4) : at - 1] else "in"
    return mention.role


def _without_second(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """Home, and unknown names beside known ones of the same role, are no places of their own."""
    known = {each.role for each in mentions if each.places and each.places != (HOME,)}
    return [each for each in mentions if (each.places and each.places != (HOME,)) or each.role not in known]


def _assigned(tokens: list[str], mentions: list[Mention], asked: str | None) -> Places:
    mentions = _joined(tokens, mentions)
    unroled = [each for each in mentions if each.role is None]
    if asked and len(unroled) == 1 and len(mentions) == 1:
        mentions, unroled = [replace(unroled[0], role=asked)], []
    mentions = _placed(mentions, unroled)
    via = next((each for each in mentions if each.role == "via"), None)
    froms, tos = _of(mentions, "from"), _of(mentions, "to") or _of(mentions, "in")
    if len(froms) == len(tos) == 2 and _same(froms[0], tos[1]) and _same(froms[1], tos[0]):
        return Places(froms[0], tos[0], via=via, is_there_and_back=True)
    backs = [*_of(mentions, "back_to"), *_of(mentions, "back_from")]
    if not tos and backs and not froms:
        tos, backs = [replace(each, role="to") for each in backs[:1] if each.role == "back_to"], backs[1:]
    strays = [each for each in backs if not any(_same(each, known) for known in (*froms, *tos))]
    is_multi = len(tos) > 1 or len(froms) > 1 or any(each.role == "back_from" for each in strays)
    # A return to somewhere that is not where it began: where it began is not said, or it is another place.
    is_multi |= bool(strays and froms)
    origin = froms[0] if froms else next((each for each in strays if each.role == "back_to"), None)
    unread = sum(each.role is None for each in mentions)
    return Places(origin, tos[0] if tos else None, is_multi, via, unread=unread)


def _joined(tokens: list[str], mentions: list[Mention]) -> list[Mention]:
    """ "X to Y", "X - Y"; "X or Y" is one mention that must be asked about; "X and Y" share their role."""
    done: list[Mention] = []
    for mention in mentions:
        last = done[-1] if done else None
        link = tokens[last.end : mention.start] if last else []
        if last is None:
            done.append(mention)
        elif link in (["-"], ["to"], ["/"]) and last.role in (None, "in", "from"):
            done[-1] = replace(last, role="from")
            done.append(replace(mention, role="to"))
        elif (
            mention.role in (None, last.role)
            and "or" in link
            and set(link) <= {",", "or", "to", "in", "from"}
        ):
            words = f"{last.words} or {mention.words}"
            done[-1] = replace(last, words=words, places=(*last.places, *mention.places), end=mention.end)
        elif mention.role is None and link and set(link) <= {",", "and", "then", "/"} and last.role:
            done.append(replace(mention, role=last.role))
        else:
            done.append(mention)
    return done


def _placed(mentions: list[Mention], unroled: list[Mention]) -> list[Mention]:
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
