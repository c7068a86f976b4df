"""Reads who has to approve, and whether an approval is needed at all, in the policy's own words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tripcortex.domain.policy_rules.regions import find_places
from tripcortex.domain.policy_rules.rules import Outcome, merge_approvers

_HEAD: Final = re.compile(
    r"(?:managers?|superiors?|supervisors?|directors?|leads?|leaders?|leadership|heads?|officers?|vps?"
    r"|svps?|evps?"
    r"|presidents?|ceo|cfo"
    r"|coo|cto|chro|cio|cpo|gm|c-suite|c-level|controllers?|comptroller|finance|treasur\w+|treasury|hr"
    r"|human resources"
    r"|people ops|people team|travel desk|travel team|travel office|travel department|security|safety|legal"
    r"|compliance"
    r"|procurement|deans?|chairs?|chairman|chairperson|provost|founders?|partners?|executives?|board"
    r"|committee|council"
    r"|sponsors?|owners?|holders?|approvers?|coordinators?|administrators?|administration|principals?"
    r"|principal investigator"
    r"|pi|rector|chancellor|superintendent|commander|captain|minister|secretary|registrar|trustees?|team"
    r"|desk|office"
    r"|department|division|ops|operations|management|l\d{1,2}|level \d|m\d|e\d|members?|advisers?|advisors?"
    r"|cell|unit|one-up|accounting|accounts|audit"
    r"|risk|co)"
    r"(?![\w])",
    re.IGNORECASE,
)
_VERB: Final = re.compile(
    r"\b(?:pre-?)?(?:approv(?:al|als|e|es|ed)|authori[sz](?:ation|e|es|ed)|sign(?:s|ed)?[- ]?off"
    r"|signatures?|consents?"
    r"|permission|discretion|agreement(?= (?:of|by|from|is|must|in writing)\b)|(?<=with the )agreement"
    r"|(?<=' )agreement|(?<=s )agreement|sanction(?:ed)?|endors(?:e|ed|ement)|clearance|cleared"
    r"|thumbs-up|green light"
    r"|countersign\w*"
    r"|sign(?:s|ed)?|say(?:s)? yes|agrees?|agreed|ok(?:s|ay|ayed)?(?= it| in| by| from)|go-ahead"
    r"|waive[rds]?)\b",
    re.IGNORECASE,
)
_NOT_NEEDED: Final = re.compile(
    r"\bno (?:\w+ ){0,3}?(?:approvals?|consent|agreement|clearance|signatures?"
    r"|authori[sz]ation|sign-?off|permission)\b(?! (?:from|by|can|may|helps?|will))"
    r"|\bnobody'?s (?:permission|approval|consent|signature)|\bnot need (?:any(?:one|body)'s) \w+"
    r"|\b(?:nobody|no one) (?:has to |needs to )?signs?\b"
    r"|\bwithout (?:\w+ ){0,3}?(?:approvals?|consent|agreement|clearance"
    r"|authori[sz]ation|sign-?off"
    r"|permission|asking|anyone)"
    r"|\b(?:approvals?|authori[sz]ation|sign-?off|permission) (?:is|are) not (?:required|needed|necessary)"
    r"|\b(?:does|do) not (?:require|need) (?:any |prior |further |additional )*(?:approvals?"
    r"|authori[sz]ation|sign-?off|permission)"
    r"|\bapprovals? (?:is |are )?(?:not|un)(?: required|needed|necessary)|\bautomatic(?:ally)? (?:approv"
    r"|authori)"
    r"|\bauto-?approv|(?<!be )\bpre-approved\b(?! by)|\bself-?approv|\bno need to (?:ask|tell)|\bjust book\b"
    r"|\bbook (?:it )?(?:directly|freely)"
    r"|^\W*(?:none|no approval|not required|n/?a|no one|nobody|auto|automatic|no)\W*$|^\W*none (?:required"
    r"|needed)",
    re.IGNORECASE,
)
_NEGATED_NEED: Final = re.compile(
    r"\b(?:not|never|cannot|nobody|no one|no \w+(?:,? \w+)*(?: or \w+)?)\b", re.IGNORECASE
)
_STOP: Final = frozenset(
    """a an the their his her your our its any both either each all of from by to with without requires
    require required
    need needs needed must may can should shall has have had is are be been only until unless if when where
    which who that this these those after before prior written advance explicit express additional further
    also then plus obtain obtains
    get gets seek ask asks subject in on at for as and or not no written, pre formal expect trip trips
    travel's flight flights booking bookings fare fares request requests above over exceeding ticket tickets
    will once via through it
    business-class cap level's respective relevant appropriate applicable under up allowed permitted economy
    given @e @p @b @f between days days, hours or, more within than exceeds cost costs total sent goes go
    class
    routed referred reviewed instead cases case rule rules exceptions exception there you they he she everyone
    but so yet possible purchase late later people one's""".split()
)
_JOINERS: Final = frozenset({"and", "&", "+", "plus"})
_NOT_ROLES: Final = frozenset(
    "USD USA EUR GBP CONUS TSA IATA NYC ALL ANY NOT AND THE FOR APAC EMEA LATAM VISA PDF".split()
)
# "Vice President, Finance" is one person.
_TITLE: Final = re.compile(r"President|Director|Head|VP|SVP|EVP")
_UNIT: Final = re.compile(
    r"Finance|Human|Operations|Sales|Legal|Engineering|Marketing|Administration|People|Corporate"
)
_CONNECTOR: Final = re.compile(
    r"\s*(?:,? and (?:also |then )?(?:the |a |an |your |their |of the |by |from )*|\+|&|,? plus "
    r"|,? as well as |, (?:and )?| then |→|->|>|;)\s*",
    re.IGNORECASE,
)
_DEPARTMENT: Final = re.compile(r"department|division|team|unit|project|region|programme?|country|account")
_WORD: Final = re.compile(r"[\w@][\w@'’/-]*(?:\.\w+)*|[+&,;:()→]")


# Verbs that are about an approval only next to somebody who gives it.
_WEAK_VERB: Final = re.compile(
    r"\b(?:confirm(?:s|ed|ation)?|decid(?:e|es|ed)|support(?:s|ed)?|allow(?:s|ed)?)\b", re.IGNORECASE
)
# "consent of the Head and of Controlling": names that are no known roles.
_OF: Final = re.compile(
    r"^(?:d|s)?(?: (?:in (?:writing|advance|text form)|is|are|be|must be|has to be|shall be|given"
    r"|obtained|granted|first|required"
    r"|needed|necessary|issued))*,? (?:of|from|by|with) (?P<names>.+)$",
    re.IGNORECASE,
)
_NAMED: Final = re.compile(
    r"^(?:both |either |jointly )?(?:by |of |from )?(?:the |a |an |your |their |his |her |its )?"
    r"(?P<name>(?:[A-Z][\w&/-]*)(?:(?: of(?: the)?)? (?:[A-Z][\w&/-]*|area|department|division|unit"
    r"|region|country|programmes?))*)"
    r"(?P<rest>.*)$"
)
_AND_NEXT: Final = re.compile(
    r"^(?: ?\([^)]*\))?(?:,? (?:and|plus|as well as|together with)(?: also)? |, (?=the |by |of"
    r" ))(?P<next>.+)$"
)


@dataclass(frozen=True)
class Approval:
    """What a text says about an approval: whether it is needed, and of whom."""

    outcome: Outcome
    approvers: tuple[str, ...] = ()


def find_approval(text: str, *, is_value: bool = False) -> Approval | None:
    """Return the approval that a text asks for or waives, or None.

    `is_value` marks a value of a table or list, which may name an approver without a verb.
    """
    without = re.sub(r"\bnot (?:be )?(?:\w+ )?(?:unless|without|until)\b", "needs", text, flags=re.IGNORECASE)
    if _NOT_NEEDED.search(without) and not re.search(
        r"\b(?:not|never|no)\b[^.;]*without\b", text, re.IGNORECASE
    ):
        return Approval(Outcome.allowed)
    approvers = tuple(_find_chains(text, is_value=is_value))
    is_weak = bool(approvers) and bool(_WEAK_VERB.search(text))
    if _VERB.search(text) or is_weak or (is_value and approvers):
        return Approval(Outcome.approval, merge_approvers([approvers]))
    return None


def find_approvers(text: str) -> tuple[str, ...]:
    """Return the approvers named next to a verb of approval, in the order of the text."""
    return merge_approvers([_find_chains(text, is_value=False)])


def drop_approvers(text: str) -> str:
    """Return the text without the roles that approve."""
    for part in re.split(r"(?<=[.;])\s", text):
        verbs = [*_VERB.finditer(part), *_WEAK_VERB.finditer(part)]
        named = (each for verb in verbs for each in _find_named(part, verb))
        spans = sorted(
            {(start, end) for start, end, _ in (*_find_adjacent(part, verbs, is_value=False), *named)}
        )
        shown = part
        for start, end in reversed(spans):
            shown = f"{shown[:start]}{' ' * (end - start)}{shown[end:]}"
        text = text.replace(part, shown)
    return text


def _find_chains(text: str, *, is_value: bool) -> Iterator[str]:
    """Yield the approvers that stand next to a verb of approval; of a value, all that it names."""
    for part in re.split(r"(?<=[.;])\s", text):
        verbs = [*_VERB.finditer(part), *_WEAK_VERB.finditer(part)]
        if not verbs and not is_value:
            continue
        yield from _order_names(part, verbs, is_value=is_value)


def _order_names(part: str, verbs: list[re.Match[str]], *, is_value: bool) -> Iterator[str]:
    """Yield the approvers of a sentence in order: known roles, and names that follow a verb."""
    found = {start: (end, name) for start, end, name in _find_adjacent(part, verbs, is_value=is_value)}
    for start, end, name in (each for verb in verbs for each in _find_named(part, verb)):
        if not any(start < other_end and other < end for other, (other_end, _) in found.items()):
            found[start] = end, name
    yield from (found[start][1] for start in sorted(found))


def _find_adjacent(
    part: str, verbs: list[re.Match[str]], *, is_value: bool
) -> Iterator[tuple[int, int, str]]:
    """Yield the known roles next to a verb of approval; of a value without a verb all roles."""
    has_strong = any(_VERB.fullmatch(verb[0]) for verb in verbs)
    for start, end, name in _iter_roles(part):
        if (is_value and not has_strong) or any(_is_next_to(part, start, end, verb) for verb in verbs):
            yield start, end, name


def _find_named(part: str, verb: re.Match[str]) -> Iterator[tuple[int, int, str]]:
    """Yield the capitalized names after "consent of …", with those that "and" joins."""
    before = _BEFORE.search(part[: verb.start()])
    if before and not find_places(before["name"]):
        yield before.start("name"), before.end("name"), before["name"]
    after = _OF.match(part[verb.end() :])
    rest = after["names"] if after else ""
    while rest and (named := _NAMED.match(rest)):
        start = len(part) - len(rest) + named.start("name")
        name = named["name"].strip()
        if name.upper() not in _NOT_ROLES and not find_places(name) and len(name) > 2:
            yield start, start + len(name), name
        following = _AND_NEXT.match(named["rest"])
        rest = following["next"] if following else ""


_BEFORE: Final = re.compile(
    r"(?:^|[\s(])(?:the|your|their|a|an|its|his or her) (?P<name>[A-Z][\w&/-]*(?: (?:of(?: the)?"
    r" )?[A-Z][\w&/-]*)*)"
    r"(?: (?:must|has to|have to|needs to|should|may|shall|will|first|also|both|has|had)){1,3} $"
)


def find_roles(text: str) -> tuple[str, ...]:
    """Return the roles that a text is about, in its order, without conditions behind them."""
    text = re.split(r",? (?:after|upon|with)\b", text)[0]
    named = _NAMED.match(text)
    roles = tuple(dict.fromkeys(name for _, _, name in _iter_roles(text)))
    return roles or ((named["name"],) if named and not named["rest"].strip(" .") else ())


def is_about_approval(text: str) -> bool:
    """Return True if the text speaks of approvals."""
    return bool(_VERB.search(text) or re.search(r"\bapprov|\bauthorit|\balçada|\bsign", text, re.IGNORECASE))


_BRIDGE_TO_VERB: Final = re.compile(
    r"^(?:'s|s')?(?:[ -]level)?(?: ?\([^)]*\))?(?:,? (?:and|or|\+|&|plus"
    r"|as well as) [\w' /.+&-]{1,45}?)?,? ?"
    r"(?:(?:must|has to|have to|both have to|all|must give|consent is|is asked|agreement is|has|needs?"
    r" to|may|can|should|shall|will|is|are|both|prior|written"
    r"|advance|explicit|express"
    r"|in advance|also|personally|then|first|jointly|do(?:es)?|'s|manager|required|the|their|to|give|gives"
    r"|level|-level|formal"
    r"|it|in writing|before|be|asked|for|email|text form|signed|pre-?)[ ,]*)*$",
    re.IGNORECASE,
)
_BRIDGE_FROM_VERB: Final = re.compile(
    r"^(?:d)?(?: (?:in writing|in advance|beforehand|in \w+|first|is (?:required|needed)|required|needed"
    r"|must be obtained"
    r"|must come|comes|be(?:en)?|obtained|given|granted|only|also|jointly|separately|instead|request(?:s"
    r"|ed)?))*,? ?"
    r"(?:of|by|from|with|through|rests? with|goes to|lies with|:|-|=|at|to)? ?(?:both |either |one of "
    r"|at least )*"
    r"(?:the |a |an |their |your |his |its |our )?(?:[\w'/ .()+&-]{0,60}?(?:,? and|,| \+|&|plus|or"
    r"|as well as)"
    r" ?(?:by |of |from |the |a |an |their |your )*)?$",
    re.IGNORECASE,
)


def _is_next_to(part: str, start: int, end: int, verb: re.Match[str]) -> bool:
    """Return True if only words of an approval are between the role and the verb."""
    if end <= verb.start():
        return bool(_BRIDGE_TO_VERB.match(part[end : verb.start()]))
    if start >= verb.end():
        return bool(_BRIDGE_FROM_VERB.match(part[verb.end() : start]))
    return False


def _iter_roles(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the roles of a text with their positions; alternatives ("CFO or COO") are one."""
    words = [(found[0], found.start(), found.end()) for found in _WORD.finditer(text)]
    last: tuple[int, int] | None = None
    for at in range(len(words)):
        if not _is_head([each[0] for each in words], at):
            continue
        begin = _find_begin(words, at, last[1] if last else -1)
        stop = _find_stop(words, at)
        is_aside = begin > 0 and words[begin - 1][0] == "(" and last is not None and last[1] == begin - 2
        if (last and begin <= last[1]) or is_aside:
            continue
        last = (begin, stop)
        name = text[words[begin][1] : words[stop][2]]
        yield words[begin][1], words[stop][2], re.sub(r"'s?$", "", name).strip(" ,;:.'")


def _is_head(words: list[str], at: int) -> bool:
    """Return True if the word is a role, an acronym, or a capitalized word that "and" joins to a role."""
    after = words[at + 1] if at + 1 < len(words) else ""
    if _is_role(words, at):
        is_other = after.casefold() == "time" or words[at].casefold() in ("l", "co", "travel", "line")
        return not is_other or f"{words[at]} {after}".casefold() in ("travel desk", "travel cell")
    if re.fullmatch(r"[A-Z]{3,5}", words[at]) and words[at] not in _NOT_ROLES:
        return True
    if not re.fullmatch(r"[A-Z][a-z]{3,}", words[at]) or words[at].casefold() in _STOP:
        return False
    is_second = at >= 2 and words[at - 1].casefold() in _JOINERS and _is_role(words, at - 2)
    is_first = after.casefold() in _JOINERS and any(
        _is_role(words, each) for each in range(at + 2, min(at + 6, len(words)))
    )
    return is_second or (is_first and at > 0)


def _is_role(words: list[str], at: int) -> bool:
    head = re.sub(r"'s?$|-level$", "", words[at])
    two = f"{head} {words[at + 1]}" if at + 1 < len(words) else head
    return bool(_HEAD.fullmatch(head) or _HEAD.fullmatch(two))


def _find_begin(words: list[tuple[str, int, int]], at: int, floor: int) -> int:
    """Return the index of the first word of the role whose last word is at `at`."""
    begin = at
    while begin - 1 > floor and at - begin < 4:
        before = words[begin - 1][0]
        if before.casefold() in _STOP or not re.fullmatch(r"[A-Za-z][\w'’./-]*|[A-Z]\d", before):
            break
        begin -= 1
    if begin >= 3 and [word.casefold() for word, _, _ in words[begin - 3 : begin]] == ["one", "of", "the"]:
        return begin - 3
    return begin


def _find_stop(words: list[tuple[str, int, int]], at: int) -> int:
    """Return the index of the last word of the role: heads that follow, and "of …"."""
    stop = at
    while stop + 1 < len(words) and _HEAD.fullmatch(re.sub(r"'s?$", "", words[stop + 1][0])):
        if words[stop][0].endswith(("'s", "'")):
            break
        stop += 1
    names = [each[0] for each in words[stop + 1 : stop + 4]] + ["", "", ""]
    return stop + (
        _count_compound(names) or _count_alternative(words, stop) or _count_unit(words[stop][0], names)
    )


def _count_compound(names: list[str]) -> int:
    """Return how many capitalized words lead to the head of the same role: "Finance Business Partner"."""
    for ahead in (2, 3):
        run = names[:ahead]
        is_name = all(each[:1].isupper() for each in run) and bool(_HEAD.fullmatch(run[-1]))
        if is_name and not any(_HEAD.fullmatch(each) for each in run[:-1]):
            return ahead
    return 0


def _count_alternative(words: list[tuple[str, int, int]], stop: int) -> int:
    """Return how many words "or …" adds: "CFO or COO" is one approver."""
    if stop + 2 < len(words) and words[stop + 1][0] == "or":
        follow = _next_role(words, stop + 2)
        return 0 if follow is None else follow - stop
    return 0


def _count_unit(head: str, names: list[str]) -> int:
    """Return how many words the unit of a head has: "President, Finance", "Manager of the department"."""
    first, second, third = names[:3]
    if first == "," and _TITLE.fullmatch(head) and _UNIT.fullmatch(second):
        return 3 if third in ("Resources", "Affairs", "Officer") else 2
    if first == "of" and second in ("the", "their", "your", "that") and _DEPARTMENT.fullmatch(third):
        return 3
    return 2 if first == "of" and (second[:1].isupper() or _DEPARTMENT.fullmatch(second)) else 0


def _next_role(words: list[tuple[str, int, int]], at: int) -> int | None:
    """Return the index of the head within the next four words, for "X or Y"."""
    for index in range(at, min(at + 5, len(words))):
        word = re.sub(r"'s?$", "", words[index][0])
        if _HEAD.fullmatch(word):
            while index + 1 < len(words) and _HEAD.fullmatch(re.sub(r"'s?$", "", words[index + 1][0])):
                index += 1
            return index
        if word.casefold() in _STOP - {"the", "a", "their", "your", "his", "her"}:
            return None
    return None


def is_refusal(text: str) -> bool:
    """Return True if the text says that nothing can be approved.

    "not approved", "no one can authorize it".
    """
    return bool(
        _VERB.search(text)
        and re.search(
            r"\b(?:cannot|can not|may not|will not|is not|are not|never|nobody can"
            r"|no one (?:who )?can) (?:be )?(?:approv|authori|sign)|"
            r"\bno one who can|\bno \w+[^.;]* may approve|\bnot (?:be )?(?:approved|authori[sz]ed)\b(?! by"
            r"| unless| without)",
            text,
            re.IGNORECASE,
        )
    )
