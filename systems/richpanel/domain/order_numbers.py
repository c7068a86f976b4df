"""Find the numbers in a message that may be order numbers. None of them counts before the shop confirms it.

A message has many numbers. Dates, times, prices, phone, tracking, case and post codes are recognised by their
form and by the words next to them, and are left out. Of the others, those that the customer calls an order
number are `named`; a bare number of five digits or more is a weaker candidate.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

# The shop is asked about this many numbers of a message at most.
MAX_CANDIDATES: Final = 5
MIN_BARE_DIGITS: Final = 5
MIN_ANSWER_DIGITS: Final = 4
MIN_NAMED_DIGITS: Final = 3
MAX_DIGITS: Final = 19
YEARS: Final = range(1900, 2100)


@dataclass(frozen=True)
class OrderCandidate:
    """A number that may be an order's, as the customer wrote it. `is_named`: the text calls it an order."""

    text: str
    is_named: bool


_MONTH: Final = (
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez|janv|févr?|fév|mars|avr|juin|"
    r"juil|août|déc|"
    r"ene|abr|ago|dic|gen|mag|giu|lug|set|ott|mrt|mei|fev|out|sty|lut|kwi|maj|cze|lip|sie|wrz|paź|lis|"
    r"gru)[^\W\d_]*\.?"
)
_CURRENCY: Final = (
    r"(?:[€$£¥]|eur(?:os?)?|usd|gbp|chf|jpy|pln|zł|złotych|dollars?|pounds?|quid|bucks|euros?|cents?|kr|"
    r"円|ドル)"
)
_DOMAIN: Final = r"(?:https?://|www\.)\S+|\S+@\S+"
# Everything that has digits and is not an order number, whatever the words around it say.
_OTHER_NUMBERS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        _DOMAIN,
        # dates and times
        rf"\b(?:the )?\d{{1,2}}(?:st|nd|rd|th|er|º|ª|\.)?(?:\s+(?:of|de|"
        rf"di))?\s?{_MONTH}(?:,?\s+(?:de\s+)?\d{{4}})?(?!\w)",
        rf"\b{_MONTH}\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?(?![\w-])",
        rf"\b{_MONTH}\s(?:19|20)\d\d\b",
        r"(?<![\d-])\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?![\d-])",
        r"(?<![\d-])\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})(?![\d-])",
        r"(?<!\d)\d{1,2}/\d{1,2}(?!\d)|\b\d{1,2}\.\d{1,2}\.(?!\d)",
        r"\d{1,4}\s?[年月日時分]|\d+\s?(?:個|本|枚|点|回|週間|ヶ月|か月)",
        r"\b\d{1,2}[:h.]\d{2}(?:[:.]\d{2})?\s?(?:am|pm|uhr|h|hrs)?\b|\b\d{1,2}\s?(?:am|pm|uhr|o'clock)\b",
        r"\b(?:in|since|until|from|of|by|seit|depuis|desde|dal|sinds|od|em|en|im|summer|winter|spring|"
        r"autumn)\s(?:19|20)\d\d\b(?!-)",
        # money and shares
        rf"{_CURRENCY}\s?\d[\d.,' ]*\d|{_CURRENCY}\s?\d|\b\d[\d.,']*\s?{_CURRENCY}(?!\w)|\d[\d.,]*,-",
        r"(?<![\w-])\d{1,3}(?:[.,]\d{3})*[.,]\d{2}(?![\d-])|(?<![\w-])\d{1,3}(?:[.,']\d{3})+(?![\d-])|"
        r"\d+[.,]?\d*\s?%",
        # phone numbers
        r"\+\d[\d ()/.-]{6,}\d|\(\d{2,5}\)[ -]?\d[\d -]{4,}\d|(?<![\w#-])0\d{1,4}[ /-]\d[\d /-]{3,}\d",
        r"(?<![\w#-])(?:1-)?\d{3}-\d{3}-\d{4}(?![\w-])|(?<![\w#-])0\d(?: \d\d){4}\b|"
        r"(?<![\w#-])\d{3} \d{3} \d{3}(?![\w-])",
        # parcels: UPS, UPU, and long runs of digits with letters or blanks
        r"\b1Z[0-9A-Z]{16}\b|\b[A-Z]{2}\s?\d{3}\s?\d{3}\s?\d{3}\s?[A-Z]{2}\b|"
        r"\b[0-9]{0,2}[A-Z]{2,6}\d{10,}[A-Z]{0,2}\b",
        r"\b\d{1,2}[A-Z]{1,2}(?: \d{3,5})+(?: \d)?\b|(?<!\d)(?:\d{4} ){2,5}\d{1,4}(?!\d)",
        # accounts, post codes, versions
        r"\b[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){3,7}\b|\b[A-Z]{1,2}\d[A-Z\d]? \d[A-Z]{2}\b|"
        r"\b\d{2}-\d{3} (?=[A-ZŁŚŻ])|"
        r"\bv?\d+\.\d+\.\d+\b|\b\d{4} [A-Z]{2}\b",
    )
)
# Words directly before a number that say what else it is.
_OTHER_WORDS: Final = re.compile(
    r"(?:\b(?:tracking|track|parcel|package|shipment|consignment|waybill|awb|ups|dhl|fedex|usps|dpd|gls|"
    r"hermes|sendung\w*|"
    r"paket\w*|colis|suivi|seguimiento|envío|spedizione|tracciamento|pakket\w*|rastreio|paczk\w*|przesyłk\w*|"
    r"case|dispute|claim|ticket|dossier|vorgang\w*|fall|aktenzeichen|réclamation|incident|issue|request|"
    r"invoice|inv|rechnung\w*|facture|factura|fattura|factuur|fatura|faktur\w*|quote|quotation|angebot\w*|"
    r"devis|po|"
    r"customer|kunden\w*|client|cliente|klant\w*|klient\w*|member\w*|account|konto\w*|compte|cuenta|conto|"
    r"conta|iban|vat|tax|ust|"
    r"phone|tel|telephone|call|ring|mobile|fax|telefon\w*|téléphone|teléfono|telefono|telefoon|handy|text|"
    r"whatsapp|"
    r"card|karte|carte|tarjeta|carta|kaart|cartão|kart\w*|ending|endet|"
    r"postcode|zip|plz|postal|model|modell|modèle|modelo|modello|serial|serie\w*|article|artikel\w*|item|"
    r"sku|art|size|"
    r"version|firmware|code|gutschein\w*|voucher|coupon|pin|cvv|room|flat|apartment|house|street|po box|"
    r"iphone|pixel|"
    r"return|returns|rma|error|errore|fehler\w*|erreur|fout\w*|erro|błąd|job|position|vacancy|application|"
    r"stelle|"
    r"return label|label|locker|packstation|case no|transaction|charge|transaktion\w*)|"
    r"追跡番号|電話|お問い合わせ番号|問い合わせ番号)"
    r"(?:[\s:.#]+(?:number|numbers|no|nr|num|id|ref|reference|code|is|was|nummer|numéro|número|numero|n°|"
    r"n|me|us|on|in|at|"
    r"lautet|ist|est|es|è|to|sur|au|under|unter|für|for))*[\s:.#(]*\(?$",
    re.IGNORECASE,
)
_ORDER: Final = (
    r"(?:orders?|ordr|purchases?|reference|ref|bestell\w*|auftr[aä]g\w*|commandes?|cde|pedidos?|compras?|"
    r"encomendas?|"
    r"ordin[ei]|ordine|acquisto|bestelling\w*|bestelnummer|ordernummer|order-?nr|zamówieni\w*|zam\.|"
    r"注文(?:番号)?|オーダー(?:番号)?|beställning\w*)"
)
_FILLER: Final = (
    r"(?:number|numbers|numb|num|no|nr|id|code|is|was|are|it'?s|ist|lautet|war|nummer|nummern|numéro|"
    r"número|numer\w*|numero|n[°ºo]?|"
    r"est|es|el|è|il|la|le|die|der|das|mit|with|under|de|der|och|my|meine|the|called|has|ref|reference|は|"
    r"の|，|:|：|\.|,|#|-|–|\(|\")"
)
# An order word, then at most five words of filler, then the number.
_ORDER_BEFORE: Final = re.compile(
    rf"{_ORDER}(?:[\s.:：#(\"-]*\b{_FILLER}|[\s.:：#(,\"°º-]|は|の|番号)*$", re.IGNORECASE
)
# "Reference" names many things, so a short number below it is none.
_REFERENCE_BEFORE: Final = re.compile(r"\b(?:ref|reference)\W*(?:number|no|nr)?\W*$", re.IGNORECASE)
_NUMBER_BEFORE: Final = re.compile(
    r"(?:^|[\s(])(?:number|no|nr|nummer|numéro|número|numero|n[°º]|番号)(?:\s+(?:is|ist|est|es|è|"
    r"was))?[\s.:：#]*$",
    re.IGNORECASE,
)
_ORDER_AFTER: Final = re.compile(
    r"^\W{0,3}(?:is|was|ist|est|es|è|as|for)?\s*(?:my|the|your|our|meine|die|ma|mi|il|mijn|o|moje)?\s*"
    rf"(?:{_ORDER}\b|(?:is )?the (?:order )?number)",
    re.IGNORECASE,
)
_LIST_GAP: Final = re.compile(
    r"\s*(?:,|;|/|&|\+|and|und|et|y|e|en|i|or|oder|plus|と|、)+\s*(?:and\s|und\s)?#?\s*", re.IGNORECASE
)
_NUMBER: Final = re.compile(
    r"(?<![\w.,:/@+£$€-])(?:#\s?)?(?:[A-Za-z]{1,5}-?)?\d[\dA-Za-z]*(?:-[\dA-Za-z]+)*(?![\w@°]|[.,:/]\d|\s?%)",
    re.ASCII,
)
_SHAPE: Final = re.compile(r"#?\s?(?:[A-Za-z]{1,5}-?)?\d+(?:-\d+)*(?:-?[A-Za-z]{1,3})?")
_UNIT_AFTER: Final = re.compile(
    r"^\s?(?:mm|cm|km|m|kg|g|ml|l|w|v|mah|gb|tb|inch(?:es)?|in|days?|hours?|weeks?|months?|years?|"
    r"minutes?|times|pieces|pcs|tage?n?|"
    r"stunden|wochen|jahre|jours|heures|semaines|ans|días|horas|semanas|años|giorni|ore|anni|dagen|weken|"
    r"jaar|dias|"
    r"anos|dni|lat|followers|shops|people|points|units|stück|mal|x)\b",
    re.IGNORECASE,
)


def find_order_candidates(text: str, subject: str = "") -> tuple[OrderCandidate, ...]:
    """Return the numbers of a message that may be order numbers, in their order, at most `MAX_CANDIDATES`.

    Bare numbers count only if the text names no order number. `subject` is that of a new message: that of a
    reply quotes the shop.
    """
    found = [*_find_all(subject), *_find_all(text)]
    named = [each for each in found if each.is_named]
    return tuple(_drop_repeated(named or found))[:MAX_CANDIDATES]


def find_answer_numbers(text: str) -> tuple[OrderCandidate, ...]:
    """Return the numbers of an answer to the question for the order number, where four digits are enough."""
    found = _find_all(text, min_bare_digits=MIN_ANSWER_DIGITS)
    named = [each for each in found if each.is_named]
    return tuple(_drop_repeated(named or found))[:MAX_CANDIDATES]


def _drop_repeated(found: Iterable[OrderCandidate]) -> list[OrderCandidate]:
    """Return the candidates without numbers that were found before."""
    return list({each.text.lstrip("# ").replace("-", "").upper(): each for each in found}.values())


def _find_all(text: str, min_bare_digits: int = MIN_BARE_DIGITS) -> list[OrderCandidate]:
    """Return all candidates of a text."""
    folded = unicodedata.normalize("NFKC", text)
    others = [span.span() for pattern in _OTHER_NUMBERS for span in pattern.finditer(folded)]
    found: list[OrderCandidate] = []
    last_named_end = -1
    for match in _NUMBER.finditer(folded):
        number = match[0].strip()
        before, after = folded[max(0, match.start() - 60) : match.start()], folded[match.end() :]
        continues = last_named_end >= 0 and bool(_LIST_GAP.fullmatch(folded[last_named_end : match.start()]))
        is_named = continues or _is_named(number, before, after)
        is_other = any(start < match.end() and match.start() < end for start, end in others)
        if is_other or not _is_plausible(
            number, before, after, is_named=is_named, min_bare_digits=min_bare_digits
        ):
            continue
        found.append(OrderCandidate(number, is_named))
        last_named_end = match.end() if is_named else -1
    return found


def _is_named(number: str, before: str, after: str) -> bool:
    """Return whether the words around a number call it an order number."""
    sentence = re.split(r"[.!?。\n]\s+(?=[A-ZÄÖÜ])", before)[-1]
    if number.startswith("#") or _ORDER_BEFORE.search(sentence):
        return True
    return bool(_NUMBER_BEFORE.search(sentence) and not _OTHER_WORDS.search(sentence)) or bool(
        _ORDER_AFTER.match(after)
    )


def _is_plausible(number: str, before: str, after: str, *, is_named: bool, min_bare_digits: int) -> bool:
    """Return whether form and context allow an order number."""
    digits = sum(each.isdigit() for each in number)
    if not _SHAPE.fullmatch(number) or not MIN_NAMED_DIGITS <= digits <= MAX_DIGITS:
        return False
    if _OTHER_WORDS.search(before) or _is_card(number):
        return False
    has_sign = number.startswith("#")
    if re.fullmatch(r"\d{4}", number.lstrip("# ")) and int(number.lstrip("# ")) in YEARS:
        return has_sign or bool(_NUMBER_BEFORE.search(before))
    if _is_phone(number) and not has_sign and not _ORDER_BEFORE.search(before):
        return False
    if is_named and _REFERENCE_BEFORE.search(before) and digits < MIN_BARE_DIGITS:
        return False
    if is_named:
        return not (digits < MIN_BARE_DIGITS - 1 and _UNIT_AFTER.match(after))
    return digits >= min_bare_digits and _is_plausible_bare(number, digits, after)


def _is_plausible_bare(number: str, digits: int, after: str) -> bool:
    """Return whether a number that nothing calls an order's may be one: not a phone number, a parcel's
    number, a measure, or a post code before a town.
    """
    if number.startswith("0") or digits >= 12 or _UNIT_AFTER.match(after):
        return False
    return not re.match(r"^,? [A-ZÄÖÜŁŚ][a-zäöüéèłś]{2,}", after)


def _is_phone(number: str) -> bool:
    """Return whether a number has the length of a phone number. Only a text that calls it an order's decides
    otherwise.
    """
    return bool(re.fullmatch(r"\d{10,11}", number.replace("-", "")))


def _is_card(number: str) -> bool:
    """Return whether a number passes the check of card numbers (Luhn), with as many digits."""
    digits = re.sub(r"\D", "", number)
    if len(digits) not in range(13, 20) or re.search(r"[A-Za-z]", number):
        return False
    doubled = [int(each) * (2 if place % 2 else 1) for place, each in enumerate(reversed(digits))]
    return sum(each - 9 if each > 9 else each for each in doubled) % 10 == 0
