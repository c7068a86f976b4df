"""Recognise acceptance criteria in their usual forms and languages."""

from __future__ import annotations

import re
from typing import Final

# Names of the criteria, as a heading or before a colon.
_HEADING: Final = re.compile(
    r"^[\W\d_]*(?:"
    r"accept(?:ance)?(?: (?:criteria|criterion|tests?|conditions?|checks?|when))?|acs?\d{0,2}"
    r"|(?:definition of )?done (?:when|if|means)|definition of done|dod|conditions? of satisfaction|cos"
    r"|criteria|kriterien|crit[èe]res|criterios|criteri|expected (?:results?|behaviou?r|outcome)|verification"
    r"|erwartetes (?:ergebnis|verhalten)|r[ée]sultat attendu|resultado esperado|success criteria"
    r"|how (?:do we|we|to) (?:check|test|verify)|verified (?:when|by)|(?:it is )?done when"
    r"|what done looks like|exit criteria|test(?:able)? criteria|pass criteria|requirements?"
    r"|ak\d{0,2}|(?:abnahme|akzeptanz)(?:kriteri(?:um|en))?|abgenommen,? wenn|fertig,? wenn|erfüllt,? wenn"
    r"|erledigt,? wenn|definition von fertig|abnahmebedingungen"
    r"|crit[èe]res? d['’ ]?(?:acceptation|acceptance|accept)|ca\d{0,2}|conditions? d['’]acceptation"
    r"|d[ée]finition (?:de|du) (?:fini|termin[ée])|termin[ée] quand|fini quand|crit[èe]res? de recette"
    r"|criterios? de (?:aceptaci[óo]n|éxito)|condiciones de aceptaci[óo]n|definici[óo]n de (?:hecho"
    r"|terminado)"
    r"|(?:hecho|listo|terminado|aceptado) cuando|se acepta (?:si|cuando)"
    r"|criteri(?:o)? di accettazione|accettazione|crit[ée]rios? de aceita[çc][ãa]o|aceite quando"
    r"|acceptatiecriteri(?:a|um)|klaar (?:als|wanneer)"
    r")\b(?:\s?\([^)\n]{0,60}\)|[^\n:|.,–—-]{0,25}(?=:))?\s*(?::|$|\||[–—-]\s)",
    re.IGNORECASE | re.MULTILINE,
)
# The same names inside a line, where a colon or the end of the line makes them a heading.
_INLINE: Final = re.compile(
    r"(?:^|[.!?;)]\s+)(?:acceptance(?: criteria| tests?)?|acs?|dod|definition of done|done when|accepted when"
    r"|ak|abnahme(?:kriterien)?|akzeptanzkriterien|ca|crit[èe]res? d['’ ]acceptation"
    r"|criterios? de aceptaci[óo]n"
    r"|criteri di accettazione|crit[ée]rios de aceita[çc][ãa]o|acceptatiecriteria)\s?(?:\([^)]*\)\s?)?(?::"
    r"|$)",
    re.IGNORECASE | re.MULTILINE,
)
# A sentence that says when work is accepted.
_WHEN: Final = re.compile(
    r"\b(?:accepted|done|complete|finished) (?:when|if|once)\b|\b(?:abgenommen|fertig|erledigt"
    r"|erfüllt),? (?:wenn|sobald)\b"
    r"|\b(?:accepté|terminé|fini)e? (?:quand|lorsque|si)\b|\b(?:se acepta|aceptad[oa]|terminad[oa]"
    r"|list[oa]) (?:cuando|si)\b"
    r"|\b(?:klaar|geaccepteerd) (?:als|wanneer)\b|\baccettat[oa] (?:quando|se)\b",
    re.IGNORECASE,
)
_NUMBERED: Final = re.compile(r"^\W*(?:AC|AK|CA)[ .#-]?\d{1,2}\b", re.MULTILINE)
# Given/When/Then: at least two of the three words, in order.
_SCENARIOS: Final = tuple(
    re.compile(rf"(?:^|[\s\W]){first}\b.{{3,400}}?\b{then}\b", re.IGNORECASE | re.DOTALL)
    for first, then in (
        (r"given\b.{3,200}?\bwhen", "then"),
        (r"(?:gegeben|angenommen)\b.{3,200}?\bwenn", "dann"),
        (r"[ée]tant donn[ée]e?s?\b.{3,200}?\bquand|soit\b.{3,200}?\bquand|lorsque", "alors"),
        (r"dad[oa]s?(?: que)?\b.{3,200}?\bcuando", "entonces"),
        (r"dat[oaie]\b.{3,200}?\bquando", "allora"),
        (r"dad[oa]s?(?: que)?\b.{3,200}?\bquando", "ent[ãa]o"),
        (r"gegeven\b.{3,200}?\b(?:als|wanneer)", "dan"),
    )
)
_SCENARIO_TITLE: Final = re.compile(
    r"^\W*(?:scenario|szenario|sc[ée]nario|escenario|cen[áa]rio)\b.{0,80}:", re.IGNORECASE | re.MULTILINE
)
_CHECKBOX: Final = re.compile(r"^\s*(?:[-*•]\s*)?(?:\[[ xX]?\]|\([ xX]\)|[☐☑✓✔◻✅])\s*\S", re.MULTILINE)
_TABLE_ROW: Final = re.compile(
    r"^\W*(?:given|gegeben|[ée]tant donn[ée]|dado)\s*\|\s*(?:when|wenn|quand|cuando)",
    re.IGNORECASE | re.MULTILINE,
)
# A line that is part of criteria: it states what shall be, not what happened.
_CRITERIA_LINE: Final = re.compile(
    r"^\W*(?:given|when|then|and|but|gegeben|angenommen|wenn .*\bdann\b|dann|[ée]tant donn[ée]e?s?|quand"
    r"|alors"
    r"|dado|dada|cuando|entonces|scenario|szenario|escenario|sc[ée]nario)\b",
    re.IGNORECASE,
)


def has_criteria(text: str) -> bool:
    """Return whether the text states acceptance criteria in any usual form."""
    return bool(
        _HEADING.search(text)
        or _INLINE.search(text)
        or _NUMBERED.search(text)
        or _WHEN.search(text)
        or _SCENARIO_TITLE.search(text)
        or _CHECKBOX.search(text)
        or _TABLE_ROW.search(text)
        or any(each.search(text) for each in _SCENARIOS)
    )


def is_criterion(sentence: str, line: str) -> bool:
    """Return whether a sentence of a line states a criterion, which describes no event.

    A sentence behind a criterion may be about anything.
    """
    return bool(_CRITERIA_LINE.search(line) or _INLINE.search(sentence) or _NUMBERED.search(sentence))
