"""The people whom a policy's words for approvers mean, for one traveller.

The directory wins. A word for which it has no person is looked up in TRIPCORTEX_APPROVERS; without a person
there, the travel desk is asked instead, and the booking's notes say so. The traveller is never an approver.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from holdfast import Stores
from holdfast.core.errors import RequestRefused
from tripcortex.directory.approver_words import (
    DEPARTMENT_HEAD_ROLES,
    TRAVEL_DESK,
    Meaning,
    find_meanings,
    normalize_word,
    rank_level,
    rank_wanted_level,
    split_alternatives,
)
from tripcortex.directory.checks import normalize_role
from tripcortex.domain.policy_rules.approvals import split_stages
from tripcortex.model import directory
from tripcortex.model.directory import EmployeeRow
from tripcortex.model.entities import ApprovalAsk, EmployeeId
from tripcortex.settings import TripCortexSettings

# All holders of a role are asked; a role of more people is one by mistake.
MAX_PEOPLE: Final = 20


@dataclass(frozen=True)
class TravellerProfile:
    """What the directory knows of a traveller. Of an unknown one everything is empty."""

    employee_id: str
    level: str | None = None
    department: str | None = None
    manager_id: str | None = None
    # The active managers above, from the nearest up.
    chain: tuple[EmployeeRow, ...] = ()


async def load_traveller(stores: Stores, employee_id: str) -> TravellerProfile:
    """Return the traveller's level, department and managers, as the directory has them now."""
    row = await stores.run(directory.employee(employee_id))
    if row is None:
        return TravellerProfile(employee_id)
    above = await stores.run(directory.management_chain(employee_id))
    chain = tuple(each for each in above if each.active and each.id != employee_id)
    return TravellerProfile(employee_id, row.level, row.department, row.manager_id, chain)


async def find_employee_level(stores: Stores, employee_id: EmployeeId) -> str | None:
    """Return the employee's level, or None if the directory does not know it."""
    row = await stores.run(directory.employee(employee_id))
    return None if row is None else row.level


class ApproverFinder:
    """Finds the approvers of one traveller's trip."""

    def __init__(self, stores: Stores, traveller: TravellerProfile, settings: TripCortexSettings) -> None:
        self._stores, self._traveller = stores, traveller
        self._words, self._levels = settings.meanings_by_word, settings.levels_by_title
        self._order = settings.approval_order
        self._by_role = {normalize_word(role): id for role, id in settings.approvers_by_role.items()}

    async def find_stages(self, words: Sequence[str], default: Sequence[str]) -> list[list[ApprovalAsk]]:
        """Return the asks of the words by stage, after one of the policy's `default` approvers, if any.

        Raise `RequestRefused` if the traveller is the only approver.
        """
        known = [word for word in words if await self._is_one_approver(word)]
        stages = split_stages(words, self._order, known)
        first = [[await self.find_default(default)]] if default else []
        return [*first, *[[await self.find_ask(word) for word in stage] for stage in stages]]

    async def _is_one_approver(self, word: str) -> bool:
        """Return whether a word with “and” is one name, such as the role “Health and Safety”."""
        if normalize_word(word) in self._words:
            return True
        return " and " in word and bool(await self._list_holders((normalize_role(word),)))

    async def find_ask(self, word: str) -> ApprovalAsk:
        """Return the ask of a word: its people, or the travel desk instead of them.

        Raise `RequestRefused` if the traveller is the only person whom the word and the travel desk mean.
        """
        people, is_traveller = await self._find_people(word)
        if people:
            return ApprovalAsk(word=word, people=people)
        desk, is_desk = await self._find_people(TRAVEL_DESK)
        if desk:
            return ApprovalAsk(word=word, people=desk, is_named=False)
        if is_traveller or is_desk:
            raise RequestRefused(
                "NobodyMayApprove",
                "The only approver is the traveller, who may not approve their own trip. Add another "
                "approver to the policy, or choose a flight that complies.",
            )
        return ApprovalAsk(word=word, people=[word], is_named=False)

    async def find_default(self, words: Sequence[str]) -> ApprovalAsk:
        """Return the ask of the first of the words that has a person; the people of the others stand in."""
        found = [await self._find_people(word) for word in words]
        position = 0
        while position + 1 < len(words) and found[position][1] and not found[position][0]:
            # The traveller holds this role alone.
            position += 1
        ask = await self.find_ask(words[position])
        others = [id for people, _ in found[position + 1 :] for id in people]
        stand_ins = [each for each in dict.fromkeys(others) if each not in ask.people]
        return ask.model_copy(update={"stand_ins": stand_ins})

    async def find_managers(self, people: Iterable[str]) -> list[str]:
        """Return the nearest active manager of each person, who is neither the traveller nor one of them."""
        asked = list(people)
        found: dict[str, None] = {}
        for each in asked[:MAX_PEOPLE]:
            above = await self._stores.run(directory.management_chain(each))
            taken = (*asked, self._traveller.employee_id)
            free = (row.id for row in above if row.active and row.id not in taken)
            if (manager := next(free, None)) is not None:
                found[manager] = None
        return list(found)

    async def find_travel_desk(self) -> list[str]:
        """Return the people of the travel desk, without the traveller."""
        return (await self._find_people(TRAVEL_DESK))[0]

    async def _find_people(self, word: str) -> tuple[list[str], bool]:
        """Return the people whom a word means, and whether the traveller is one of them, who is left out."""
        found: dict[str, None] = {}
        is_traveller = False
        for each in (word,) if normalize_word(word) in self._words else split_alternatives(word):
            people = await self._find_in_directory(each) or self._find_in_settings(each)
            is_traveller |= self._traveller.employee_id in people
            found |= dict.fromkeys(id for id in people if id != self._traveller.employee_id)
        return list(found)[:MAX_PEOPLE], is_traveller

    def _find_in_settings(self, word: str) -> list[str]:
        """Return the person whom TRIPCORTEX_APPROVERS names for the word, or whose id the word is."""
        if word in self._by_role.values():
            return [word]
        person = self._by_role.get(normalize_word(word))
        return [] if person is None else [person]

    async def _find_in_directory(self, word: str) -> list[str]:
        """Return the people whom the first meaning of the word with any people has."""
        for meaning in (*find_meanings(word, self._words), Meaning("employee", word.strip())):
            people = await self._find_by_meaning(meaning)
            if people:
                return people
        return []

    async def _find_by_meaning(self, meaning: Meaning) -> list[str]:
        """Return the people whom a meaning has."""
        chain = self._traveller.chain
        match meaning.kind:
            case "manager":
                position = int(meaning.value) - 1
                return [each.id for each in chain[position : position + 1]]
            case "level":
                return [each.id for each in chain if self._has_level(each, meaning.value)][:1]
            case "role":
                return [each.id for each in await self._list_holders((normalize_role(meaning.value),))]
            case "department-head":
                return await self._find_department_head()
            case "employee":
                row = await self._stores.run(directory.employee(meaning.value))
                return [row.id] if row is not None and row.active else []

    def _has_level(self, row: EmployeeRow, wanted: str) -> bool:
        """Return whether an employee has at least the wanted level."""
        if normalize_role(row.level or "") == normalize_role(wanted):
            return True
        least = rank_wanted_level(wanted, self._levels)
        own = rank_level(row.level, self._levels)
        return least is not None and own is not None and own >= least

    async def _find_department_head(self) -> list[str]:
        """Return who has that role in the traveller's department, else the highest manager within it."""
        department = self._traveller.department
        if department is None:
            return []
        holders = await self._list_holders(DEPARTMENT_HEAD_ROLES)
        if own := [each.id for each in holders if _is_same(each.department, department)]:
            return own
        return [each.id for each in self._traveller.chain if _is_same(each.department, department)][-1:]

    async def _list_holders(self, roles: Sequence[str]) -> Sequence[EmployeeRow]:
        return await self._stores.run(directory.role_holders(roles))


async def open_finder(stores: Stores, employee_id: str, settings: TripCortexSettings) -> ApproverFinder:
    """Return the finder of a traveller's approvers."""
    return ApproverFinder(stores, await load_traveller(stores, employee_id), settings)


async def list_principals(stores: Stores, employee_id: str, now: datetime) -> tuple[str, ...]:
    """Return the employees for whom this employee acts as delegate now."""
    return tuple(each.id for each in await stores.run(directory.principals(employee_id, now)))


async def list_delegates(stores: Stores, people: Sequence[str], now: datetime) -> list[str]:
    """Return the delegates who act for these people now."""
    rows = await stores.run(directory.employees_by_id(people))
    return [each.delegate_id for each in rows if each.delegate_id and each.has_delegate_at(now)]


async def has_left(stores: Stores, employee_id: str) -> bool:
    """Return whether the directory has the employee as inactive. One that it does not know has not left."""
    row = await stores.run(directory.employee(employee_id))
    return row is not None and not row.active


async def list_leavers(stores: Stores, asked: ApprovalAsk, now: ApprovalAsk) -> list[str]:
    """Return who of the asked people is inactive, or was deleted and is not who the word means `now`."""
    rows = {each.id: each for each in await stores.run(directory.employees_by_id(asked.people))}
    return [
        each
        for each in asked.people
        if (each not in rows and each not in now.people) or (each in rows and not rows[each].active)
    ]


def describe_substitutes(asks: Iterable[ApprovalAsk]) -> list[str]:
    """Return a note for each word without a person: who is asked instead, or that nobody is."""
    return [_describe_substitute(ask) for ask in asks if not ask.is_named]


def _describe_substitute(ask: ApprovalAsk) -> str:
    if ask.people != [ask.word]:
        return (
            f"The directory has no employee for the approver “{ask.word}”, so the travel desk decides: "
            f"{', '.join(ask.people)}."
        )
    return (
        f"No employee is set for the approver role “{ask.word}”, so this choice will be refused at its "
        "deadline: have an operator set TRIPCORTEX_APPROVERS, or request a flight inside the policy."
    )


def _is_same(one: str | None, other: str) -> bool:
    return (one or "").casefold() == other.casefold()
