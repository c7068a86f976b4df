"""Remove what follows a message: its closing, signature, disclaimer and the client's advertisement.

What looks like a closing is one only if nothing below it is a sentence: "Thanks!" may be followed by a second
question.
"""

from __future__ import annotations

import re
from typing import Final

_DELIMITER: Final = re.compile(r"\s*(?:--|—|––|__)\s*")
# A rule of dashes or stars, as above signatures in Japan.
_RULE: Final = re.compile(r"\s*[-=_*─━～~☆★・+]{5,}\s*")
# Lines that clients add.
_CLIENT_LINE: Final = re.compile(
    r"\s*(?:sent (?:from|via|with|using|by) .{2,60}|get outlook for \w+.*|von mein(?:em|"
    r"er) .{2,40}gesendet.*|"
    r"(?:diese nachricht wurde )?gesendet (?:von|mit|über) .{2,60}|"
    r"diese nachricht wurde von .{2,60} gesendet.*|"
    r"envoyé (?:de|depuis|à partir|avec) .{2,60}|télécharger outlook.*|enviado (?:desde|do|de|a partir|"
    r"com) .{2,60}|"
    r"obter o outlook.*|obtener outlook.*|inviato (?:da|con|dal) .{2,60}|scarica outlook.*|"
    r"(?:verzonden|verstuurd) (?:vanaf|met|via|door) .{2,60}|wysłan[eo] (?:z|za) .{2,60}|.{0,30}から送信.*|"
    r"skickat från .{2,40}|virus-free.*|virenfrei.*|sans virus.*|.*www\.avast\.com.*|outlook für (?:ios|"
    r"android).*|"
    r"yahoo mail:? .{0,60}|sent securely.*)\s*",
    re.IGNORECASE,
)
_CLOSING: Final = re.compile(
    r"\s*(?:(?:with |mit |met |z )?(?:(?:kind(?:est)?|best|warm(?:est)?|many|my|friendly|all the|"
    r"freundliche[nm]?|viele[n]?|liebe[n]?|beste[nr]?|herzliche[nr]?|schöne[nr]?|sonnige|vriendelijke|"
    r"hartelijke|"
    r"cordiali|distinti|cari|un|mis|muchos|bien|sincères|meilleures|très|os melhores|melhores|poważaniem|"
    r"serdecznie|cordial|atento|a)\s+)*"
    r"(?:regards|wishes|best|rgds|brgds|grüße[n]?|grüsse[n]?|grüssen|gruß|gruss|groet(?:en|jes)?|saluti|"
    r"saludos?|"
    r"salutations|cordialement|à vous|à toi|pozdrawiam|pozdrowienia|poważaniem|cumprimentos|abraços?|"
    r"sincerely(?: yours)?|respectfully|faithfully|cordially|thanks|thank you|thx|ty|cheers|danke|merci|"
    r"gracias|"
    r"grazie|bedankt|dank(?:je| je| u)?|obrigad[oa]|dziękuję|dzięki|dank|atentamente|atenciosamente|"
    r"cordialmente|"
    r"amicalement|bises|xoxo|love|mfg|lg|vg|mvg|vriendelijke groet|ciao|br|tia|best)"
    r"(?: (?:in advance|again|a lot|so much|very much|for your help|for your time|im voraus|vielmals|"
    r"schön|sehr|"
    r"d'avance|beaucoup|mille|de antemano|por adelantado|in anticipo|alvast|antecipadamente|z góry|from|"
    r"and|und|et|"
    r"regards|best|yours|mit|besten|beste|cordialement|dank|vorab))*"
    r"|yours(?: (?:sincerely|faithfully|truly))?|(?:vielen|besten|herzlichen|"
    r"lieben) dank(?: im voraus)?(?: und .{3,30})?|"
    r"merci d'avance|hochachtungsvoll|ihr(?:e)? \w+|veuillez agréer.*|je vous prie d'agréer.*|"
    r"dans l'attente.*|"
    r"bonne (?:journée|soirée)|en attente.*|quedo a la espera.*|resto in attesa.*|in attesa di.*|"
    r"looking forward.*|i look forward.*|many thanks.*|with thanks.*|"
    r"schönen tag.*|よろしくお願い(?:いた|致)?し?ます。?|敬具|以上)"
    r"\s*[,.!;:–—-]*\s*(?P<name>[^\n.?!,]{0,50})[.!,]?\s*",
    re.IGNORECASE,
)
_DISCLAIMER_START: Final = re.compile(
    r"\s*[*_]*(?:this (?:e-?mail|message|communication|transmission)|the (?:information|"
    r"content)s? (?:contained|in)|"
    r"confidential|disclaimer|privileged|important notice|notice:|caution|please consider the environment|"
    r"(?:please )?think before|before printing|save (?:paper|trees)|registered in|diese (?:e-?mail|"
    r"nachricht|information)|"
    r"der inhalt dieser|vertraulich|hinweis:|ce (?:message|courriel|mail|courrier)|cet (?:e-?mail)|"
    r"les informations|avant d'imprimer|pensez à|este (?:mensaje|correo|e-?mail)|esta (?:mensagem|"
    r"comunicação)|"
    r"aviso|la información|questo messaggio|questa e-?mail|le informazioni|la presente|dit (?:bericht|"
    r"e-?mail)|"
    r"deze (?:e-?mail|boodschap)|de informatie|niniejsz[aey]|ta wiadomość|treść tej)",
    re.IGNORECASE,
)
_DISCLAIMER_WORD: Final = re.compile(
    r"confidential|privileged|intended (?:solely|only|recipient)|vertraulich|geschützte|adressat|"
    r"confidentiel|"
    r"destinataire|confidencial|destinatari|riservat|vertrouwelijk|geadresseerde|poufn|adresata|in error|"
    r"irrtümlich|"
    r"par erreur|por error|por engano|per errore|registered (?:in|office)|print|drucken|imprim|stampa|"
    r"environment|"
    r"umwelt|unauthori[sz]ed|liab",
    re.IGNORECASE,
)
_CONTACT: Final = re.compile(
    r"@|\bwww\.|https?://|\+?\d[\d ()/.-]{6,}\d|\b(?:tel|phone|mobile|mob|fax|t|m|e|dd|whatsapp|handy|"
    r"port)\b\s?[.:]|"
    r"\b(?:gmbh|ltd|llp|llc|inc|s\.?r\.?l|s\.?a\.?s|b\.?v|ag|plc|street|road|lane|straße|str\.|rue|via|"
    r"calle|ul\.)\b|"
    r" \| |\b\d{4,5} [A-ZÄÖÜ]",
    re.IGNORECASE,
)
_NAME_WORD: Final = re.compile(
    r"(?:[^\W\d_a-zà-ÿ][^\W\d_]*(?:['’.-][^\W\d_]*)*\.?|(?:von|van|de|da|di|der|den|la|le|&))"
)
_SENTENCE_END: Final = re.compile(r"[.?!。？！]['\")»“]?\s*$")
MIN_SENTENCE_WORDS: Final = 4
MAX_SIGNATURE_LINES: Final = 12
MAX_CLOSING_CHARS: Final = 120


def remove_signature(text: str, sender_name: str = "") -> str:
    """Return a message without its closing, signature and disclaimer. `sender_name` helps to recognise a
    name that stands alone.
    """
    lines = _cut_marked(text.strip().split("\n"))
    lines = _cut_disclaimer(lines)
    lines = _cut_closing(lines)
    lines = _cut_name(lines, sender_name)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def _cut_marked(lines: list[str]) -> list[str]:
    """Cut at the signature delimiter, and leave out lines that the client added."""
    for place, line in enumerate(lines):
        if not any(each.strip() for each in lines[:place]):
            continue
        is_rule = _RULE.fullmatch(line) and not any(map(_is_sentence, lines[place + 1 :]))
        if is_rule or _DELIMITER.fullmatch(line):
            lines = lines[:place]
            break
    return [line for line in lines if not _CLIENT_LINE.fullmatch(line)]


def _cut_disclaimer(lines: list[str]) -> list[str]:
    """Cut at the first paragraph that is a disclaimer, if it is not the first paragraph."""
    for place in range(1, len(lines)):
        paragraph = " ".join(_take_paragraph(lines, place))
        if _DISCLAIMER_START.match(lines[place]) and _DISCLAIMER_WORD.search(paragraph):
            return lines[:place]
    return lines


def _take_paragraph(lines: list[str], place: int) -> list[str]:
    """Return the lines from `place` to the next blank one."""
    end = next((number for number in range(place, len(lines)) if not lines[number].strip()), len(lines))
    return lines[place:end]


def _cut_closing(lines: list[str]) -> list[str]:
    """Cut at the first closing below which no sentence follows."""
    for place in range(1, len(lines)):
        match = _CLOSING.fullmatch(lines[place]) if len(lines[place]) <= MAX_CLOSING_CHARS else None
        if match is None or not any(line.strip() for line in lines[:place]):
            continue
        if _is_name_or_empty(match["name"]) and not any(map(_is_sentence, lines[place + 1 :])):
            return lines[:place]
    return lines


def _is_name_or_empty(text: str) -> bool:
    """Return whether the rest of a closing line is empty or a name."""
    words = text.replace(",", " ").split()
    return len(words) <= 4 and not any(any(each.isdigit() for each in word) for word in words)


def _is_sentence(line: str) -> bool:
    """Return whether a line is prose of the message, and not of a signature."""
    words = line.split()
    if "?" in line or "？" in line:
        return True
    if _CONTACT.search(line):
        return False
    if _SENTENCE_END.search(line) and len(words) >= MIN_SENTENCE_WORDS:
        return True
    return len(words) > 9 or (bool(line[:1].islower()) and len(words) > 5)


def _cut_name(lines: list[str], sender_name: str) -> list[str]:
    """Cut a signature block that starts with a name and has no closing above it."""
    while lines and not lines[-1].strip():
        lines = lines[:-1]
    for place in range(max(1, len(lines) - MAX_SIGNATURE_LINES), len(lines)):
        above, below = lines[:place], lines[place:]
        if not any(line.strip() for line in above) or any(map(_is_sentence, below)):
            continue
        if _is_signed(lines[place], below[1:], sender_name, is_paragraph=not lines[place - 1].strip()):
            return above
    return lines


def _is_signed(line: str, below: list[str], sender_name: str, *, is_paragraph: bool) -> bool:
    """Return whether a line is the name above a signature block. The sender's own name always is; another
    one only in a paragraph of its own, with contact details or nothing below it.
    """
    words = re.sub(r"\([^)]*\)|[,.!]+$|^[-–—/ ]+|\bxx?o?x?o?\b| [|,–-] .*", " ", line).split()
    if not 1 <= len(words) <= 5 or any(any(each.isdigit() for each in word) for word in words):
        return False
    known = {word.casefold() for word in re.split(r"[\W_]+", sender_name) if len(word) > 1}
    if known & {word.strip(".,").casefold() for word in words} and len(words) <= 5:
        return True
    if not is_paragraph or not all(_NAME_WORD.fullmatch(word) for word in words):
        return False
    return any(_CONTACT.search(each) for each in (line, *below)) or (not any(below) and len(words) <= 3)
