"""Detects a sentence that is not in English, only as far as the planner needs it to refuse the request.

It counts function words and travel words. None of them is part of a city's name or an English word, so "Rio
de Janeiro" does not count as Portuguese. If as many words are English, the planner reads the sentence.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from tripcortex.domain.planner.ports import Refusal

MIN_WORDS: Final = 2

ENGLISH: Final = frozenset(
    "a the to from on in at for i me my need want would like please book flight flights fly flying next "
    "this returning return back one way round trip tomorrow today and with prefer under of is am leaving "
    "going get go".split()
)
OTHERS: Final = {
    "German": frozenset(
        "ich bitte einen eine nach mochte moechte fliegen flug und zuruck zurueck nachsten naechsten "
        "morgen ubermorgen brauche buchen am von der den montag dienstag mittwoch donnerstag freitag "
        "samstag sonntag fur mit hin hinflug ruckflug einfach nur heute woche".split()
    ),
    "French": frozenset(
        "je voudrais un une vol pour vers demain aller retour simple lundi mardi mercredi jeudi vendredi "
        "samedi dimanche prochain reserver billet depuis besoin jai mon avec et du au plait aujourdhui "
        "semaine".split()
    ),
    "Spanish": frozenset(
        "quiero quisiera necesito un una vuelo para manana proximo lunes martes miercoles jueves viernes "
        "sabado domingo solo ida vuelta reservar desde hasta con por favor el y hoy semana billete "
        "volar".split()
    ),
    "Italian": frozenset(
        "vorrei un volo per domani lunedi martedi mercoledi giovedi venerdi sabato domenica solo andata "
        "ritorno prenotare biglietto prossimo da il con favore ho bisogno oggi settimana volare".split()
    ),
    "Portuguese": frozenset(
        "quero queria preciso um uma voo para amanha segunda terca quarta quinta sexta proxima so ida "
        "volta reservar bilhete passagem com por favor desde hoje semana feira voar".split()
    ),
    "Dutch": frozenset(
        "ik wil graag een vlucht naar morgen enkele reis retour maandag dinsdag woensdag donderdag "
        "vrijdag zaterdag zondag volgende boeken ticket vanaf van met alstublieft en terug vandaag "
        "vliegen nodig heb kun je boek vlucht donderdag op".split()
    ),
    "Swedish": frozenset(
        "boka ett flyg flygbiljett biljett till fran pa tack jag vill behover mandag tisdag onsdag "
        "torsdag fredag lordag sondag tillbaka hem nasta imorgon idag enkel resa och vecka".split()
    ),
    "Danish or Norwegian": frozenset(
        "bestil bestill flybillet flybillett billet billett til fra jeg vil gerne skal trenger mandag "
        "tirsdag onsdag torsdag fredag neste naeste tilbage tilbake takk tak tur retur og uke uge "
        "morgen".split()
    ),
    "Polish": frozenset(
        "prosze lot bilet lotniczy zarezerwuj chce potrzebuje poleciec poniedzialek wtorek sroda czwartek "
        "piatek sobota niedziela jutro powrot dzisiaj na do".split()
    ),
    "Turkish": frozenset(
        "lutfen ucak bileti ucus istiyorum yarin bugun pazartesi sali carsamba persembe cuma cumartesi "
        "pazar gidis donus icin bir".split()
    ),
    "Finnish": frozenset(
        "varaa lento lennot lippu haluan tarvitsen maanantaina tiistaina keskiviikkona torstaina "
        "perjantaina lauantaina sunnuntaina huomenna takaisin paluu kiitos minulle".split()
    ),
    "Czech": frozenset(
        "prosim letenku letenka let chci potrebuji pondeli utery stredu ctvrtek patek sobotu nedeli zitra "
        "zpet rezervovat zpatecni".split()
    ),
    "Indonesian": frozenset(
        "saya mau ingin tolong pesan pesankan tiket pesawat penerbangan dari ke besok senin selasa rabu "
        "kamis jumat sabtu minggu pulang pergi".split()
    ),
}
PLEASE: Final = {
    "German": "Bitte schreiben Sie auf Englisch.",
    "French": "Merci d'écrire en anglais.",
    "Spanish": "Por favor, escriba en inglés.",
    "Italian": "Per favore, scriva in inglese.",
    "Portuguese": "Por favor, escreva em inglês.",
    "Dutch": "Schrijf alstublieft in het Engels.",
    "Swedish": "Skriv gärna på engelska.",
    "Turkish": "Lütfen İngilizce yazın.",
    "Polish": "Proszę pisać po angielsku.",
}


def refuse_foreign_language(sentence: str, plain: str) -> Refusal | None:
    """Return a refusal if the sentence is in another language or script, else None.

    `plain` is the sentence after `normalize_text`.
    """
    if _uses_other_script(sentence):
        return _build_refusal("another script", "")
    words = re.findall(r"[a-z]+", plain)
    english = sum(word in ENGLISH for word in words)
    counts = {name: sum(word in known for word in words) for name, known in OTHERS.items()}
    name = max(counts, key=lambda each: counts[each])
    if counts[name] < MIN_WORDS or counts[name] <= english:
        return None
    return _build_refusal(name, f" {PLEASE[name]}" if name in PLEASE else "")


def _uses_other_script(sentence: str) -> bool:
    """Return whether more than half of the letters are not Latin."""
    letters = [each for each in sentence if each.isalpha()]
    strange = [each for each in letters if not unicodedata.name(each, "").startswith("LATIN")]
    return len(strange) * 2 > len(letters)


def _build_refusal(name: str, please: str) -> Refusal:
    """Return the refusal for the language `name`, with the sentence `please` in that language."""
    return Refusal(
        "language",
        f"Sorry, I read English only, and this looks like {name}. Please say it in English, for instance: "
        f"“Flight from Boston to Chicago on 2 June, returning 4 June.”{please}",
    )
