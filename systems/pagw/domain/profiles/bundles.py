"""Check a Bundle of PAS: its envelope, then each resource against every profile that applies to it.

A profile applies to an entry if the Bundle's profile names it for that type, if the resource declares it, or
if a reference leads to the resource and demands it. An entry without any is checked against base R4.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pagw.domain.fhir.references import Entry, Graph, is_full_url
from pagw.domain.profiles.checker import Checker
from pagw.domain.profiles.findings import At, Findings, TooManyFindings
from pagw.domain.profiles.rules import Field, Library, ObjectRules, Target

Json = Mapping[str, Any]

# References that may lead out of the Bundle: what a response answers, and a prior claim. The rules of updates
# decide whether a prior claim must be included.
_LEADING_OUT: Final = frozenset({"ClaimResponse.request", "Claim.related.claim"})


class BundleChecker:
    """Checks one Bundle. Implements `checker.Links` for the resource that is being checked."""

    def __init__(self, library: Library, bundle: Json, findings: Findings, *, quotes_names: bool) -> None:
        self._library, self._bundle, self._findings = library, bundle, findings
        self._graph = Graph.from_bundle(bundle)
        self._entries: dict[int, Entry] = {}
        self._indexes: dict[int, int] = {}
        self._checker = Checker(library, findings, self, quotes_names)
        # Without the address of an entry, it is unknown what a reference leads to.
        self._has_addresses = all(is_full_url(each.full_url) for each in self._graph.entries)
        self._current: Entry | None = None
        self._waiting: deque[tuple[int, str]] = deque()
        self._planned: dict[int, set[str]] = {}

    def check(self, profile: ObjectRules) -> None:
        """Check the Bundle against a profile of Bundle, and its entries. Stop at too many findings."""
        try:
            self._checker.check_resource(self._bundle, profile, (None, "Bundle", -1))
            self._check_waiting()
            for index, profiles in self._planned.items():
                if not profiles:
                    self._plan(index, self._entries[index].kind)
            self._check_waiting()
        except TooManyFindings:
            return

    # --- links ----------------------------------------------------------------------------------------------

    def accept_entry(self, resource: Json, field: Field, at: At) -> bool:
        """Plan the checks of an entry's resource. A resource within an entry is checked in place."""
        if self._current is not None or at is None:
            return False
        index = at[0][2]
        self._add_entry(index, resource)
        kind = str(resource["resourceType"])
        demanded = field.element.resource_profiles.get(kind, ())
        for profile in [*self._choose(resource, demanded), *_get_declared(resource)]:
            self._plan(index, profile, of=demanded)
        return True

    def check_reference(self, reference: Json, targets: tuple[Target, ...], at: At, path: str) -> None:
        """Check that a reference leads to a resource of the Bundle, of a type that is allowed."""
        if self._current is None:
            return
        found = self._graph.resolve(reference, self._current)
        if found is None:
            self._report_unresolved(reference["reference"], targets, at, path)
            return
        resource, entry = found
        kind = str(resource.get("resourceType"))
        fitting = [each for each in targets if each.type == kind]
        if targets and not fitting:
            # A resource of an unknown type is reported where it is.
            if kind in self._library.resource_types:
                self._report_type(targets, at)
        elif resource is entry.resource and all(each.profile for each in fitting):
            for profile in self._choose(resource, [str(each.profile) for each in fitting]):
                self._plan(self._indexes.get(id(resource), -1), profile)

    def resolve(self, reference: Any) -> Any:
        """Return the resource of the Bundle that a Reference leads to, or None."""
        found = self._graph.resolve(reference, self._current) if self._current is not None else None
        return found[0] if found is not None else None

    # --- entries --------------------------------------------------------------------------------------------

    def _add_entry(self, index: int, resource: Json) -> None:
        url = self._bundle["entry"][index].get("fullUrl")
        self._entries[index] = Entry(index, url if isinstance(url, str) else "", resource)
        self._indexes[id(resource)] = index
        self._planned.setdefault(index, set())

    def _plan(self, index: int, profile: str, *, of: Sequence[str] = ()) -> None:
        """Plan a check of an entry, once. Of the alternatives `of`, only the first one is checked."""
        profile = profile.partition("|")[0]
        planned = self._planned.get(index)
        rules = self._library.find(profile)
        if planned is None or rules is None or rules.type != self._entries[index].kind:
            return
        if profile not in planned and (profile not in of or planned.isdisjoint(of)):
            planned.add(profile)
            self._waiting.append((index, profile))

    def _check_waiting(self) -> None:
        while self._waiting:
            index, profile = self._waiting.popleft()
            rules = self._library.find(profile)
            entry = self._current = self._entries[index]
            if rules is not None:
                at: At = ((None, "Bundle", -1), "entry", index)
                self._checker.check_resource(
                    entry.resource, rules, (at, f"resource.ofType({entry.kind})", -1)
                )
        self._current = None

    def _choose(self, resource: Json, profiles: Sequence[str]) -> list[str]:
        """Choose one of the alternative profiles: the declared one, else that which fits best by its required
        and its forbidden elements.
        """
        if len(profiles) < 2:
            return list(profiles)
        declared = set(_get_declared(resource))
        known = [(each, rules) for each in profiles if (rules := self._library.find(each)) is not None]
        ranked = sorted(known, key=lambda each: (each[0] not in declared, each[1].count_mismatches(resource)))
        return [ranked[0][0]] if ranked else []

    # --- reports --------------------------------------------------------------------------------------------

    def _report_unresolved(self, target: str, targets: tuple[Target, ...], at: At, path: str) -> None:
        if path not in _LEADING_OUT and self._has_addresses:
            wrong = (
                "the target is not in this Bundle. Include the resource, or fix the reference or the fullUrl"
            )
            self._findings.add_error("not-found", at, wrong)
        elif (
            targets
            and (kind := _get_type(target)) is not None
            and kind not in {each.type for each in targets}
        ):
            self._report_type(targets, at)

    def _report_type(self, targets: tuple[Target, ...], at: At) -> None:
        allowed = ", ".join(dict.fromkeys(each.type for each in targets))
        self._findings.add_error("structure", at, f"expected a reference to {allowed}")


def _get_declared(resource: Json) -> list[str]:
    """Return the profiles that a resource declares, without versions."""
    meta = resource.get("meta")
    profiles = meta.get("profile") if isinstance(meta, dict) else None
    found = profiles if isinstance(profiles, list) else []
    return [each.partition("|")[0] for each in found if isinstance(each, str)]


def _get_type(target: str) -> str | None:
    """Return the type that a reference names: `Patient/1` or `https://…/Patient/1`."""
    kind = target.rpartition("/")[0].rpartition("/")[2]
    return kind if kind[:1].isupper() and kind.isalpha() else None
