"""Reading of risks, assumptions, issues and dependencies from sentences in several languages."""

from __future__ import annotations

import pytest

from agenticpm.domain.reading.raid_reader import (
    RaidKind,
    Source,
    read_statements,
    says_blocked,
    says_resolved,
)

STATEMENTS = (
    ("risk", "mail", "If the customs papers are not stamped by Friday, the containers will miss the ship."),
    ("risk", "comment", "My concern is that Pedro is the only one who knows the old billing job."),
    ("risk", "mail", "We might have to postpone the pilot because the hall is not free in June."),
    ("risk", "mail", "Should the union reject the roster, we will not have enough drivers for the opening."),
    ("risk", "mail", "I am afraid the tax office will not sign before the holidays."),
    ("risk", "mail", "Falls der Frost anhält, können die Leitungen nicht vor April verlegt werden."),
    (
        "risk",
        "mail",
        "Ich befürchte, dass uns Frau Keller im Mai verlässt und niemand die Schnittstelle kennt.",
    ),
    (
        "risk",
        "mail",
        "Wenn der Zoll die Ware wieder zwei Wochen festhält, wird die Messe ohne Muster stattfinden.",
    ),
    ("risk", "mail", "Il se peut que le fournisseur ne livre pas les capteurs avant septembre."),
    ("risk", "mail", "Si la subvention n'est pas versée en juin, nous devrons arrêter le pilote."),
    ("risk", "mail", "Je crains que la mairie ne signe pas avant l'été."),
    ("risk", "mail", "Nous risquons de perdre deux semaines si le serveur n'arrive pas lundi."),
    ("risk", "mail", "Si no llega la placa antes del 10, no podremos probar en campo este mes."),
    ("risk", "mail", "Me preocupa que el proveedor no tenga repuestos en diciembre."),
    ("risk", "mail", "Podría retrasarse la entrega porque la aduana está en huelga."),
    ("risk", "comment", "One more slip and we lose the certification slot."),
    ("risk", "mail", "There is a danger that the old meters do not speak the new protocol."),
    (
        "risk",
        "mail",
        "Our only tester goes on parental leave in July, which may leave the release without acceptance.",
    ),
    ("risk", "mail", "The supplier has warned us that the chips may be delayed until August."),
    ("risk", "comment", "We could run out of test cards before the audit."),
    ("risk", "mail", "If it rains next week the concrete won't cure and we slip by ten days."),
    ("assumption", "comment", "We're assuming the bank keeps the old format until March."),
    ("assumption", "description", "Assumption: the vendor's API allows 100 calls per second."),
    ("assumption", "mail", "I take it that you will provide the rooms."),
    ("assumption", "mail", "We reckon with 300 users on the first day."),
    ("assumption", "mail", "We count on the city lending us the hall."),
    ("assumption", "mail", "The plan presupposes that all branches have fibre by May."),
    ("assumption", "mail", "We are working on the basis that VAT stays at 19 percent."),
    ("assumption", "mail", "We expect the ministry to keep the current form for the whole year."),
    ("assumption", "comment", "Ich gehe davon aus, dass die Daten bereits bereinigt sind."),
    ("assumption", "comment", "Wir nehmen an, dass der Betriebsrat zustimmt."),
    ("assumption", "description", "Annahme: Die Filialen haben alle Glasfaser."),
    ("assumption", "comment", "Wir rechnen damit, dass die Lizenzen bis Jahresende gelten."),
    ("assumption", "comment", "On suppose que les agents garderont leurs tablettes."),
    ("assumption", "description", "Hypothèse : le format des factures ne change pas en 2027."),
    ("assumption", "description", "Nous tenons pour acquis que la Ville fournira le wifi."),
    ("assumption", "comment", "Damos por hecho que los camiones llegan con GPS."),
    ("assumption", "description", "Partimos de que el banco mantiene el formato actual."),
    ("assumption", "description", "Supuesto: la red aguanta 500 usuarios."),
    ("dependency", "comment", "We need the firewall change from the network team before we can test."),
    ("dependency", "comment", "Waiting for the vendor to send the new firmware."),
    ("dependency", "comment", "Still waiting on legal for the contract."),
    ("dependency", "comment", "Legal must sign off the terms first."),
    ("dependency", "mail", "We can only ship once the notified body has issued the certificate."),
    ("dependency", "mail", "Your go-live depends on our data centre finishing the cabling."),
    ("dependency", "description", "Depends on the identity team delivering the new login service."),
    ("dependency", "comment", "The API key has to come from the bank, they have not answered yet."),
    ("dependency", "comment", "Wir brauchen zuerst die Freigabe der Datenschutzbeauftragten."),
    ("dependency", "comment", "Ohne die Daten der Bank können wir nicht testen."),
    ("dependency", "comment", "Warte auf Rückmeldung vom Kunden."),
    ("dependency", "comment", "On attend la réponse du service juridique."),
    ("dependency", "comment", "Nous ne pouvons pas commencer avant que la DSI ouvre le port."),
    ("dependency", "comment", "Il nous faut d'abord l'accord de la mairie."),
    ("dependency", "comment", "Dependemos de que el proveedor entregue las licencias."),
    ("dependency", "comment", "Esperamos la firma del cliente."),
    ("dependency", "comment", "No podemos seguir hasta que el banco habilite la cuenta."),
    ("issue", "comment", "The test database was wiped during the maintenance and there is no backup."),
    ("issue", "comment", "Our only Oracle specialist resigned on Monday."),
    ("issue", "comment", "The supplier has gone bankrupt and the deliveries have stopped."),
    ("issue", "comment", "The build server burned out last night, nobody can deploy."),
    ("issue", "mail", "The truck with the displays had an accident and half of them are broken."),
    ("issue", "comment", "Der Lieferant hat die Bestellung storniert."),
    ("issue", "comment", "Die Festplatte ist defekt, alle Aufnahmen der letzten Woche sind verloren."),
    ("issue", "comment", "Le prestataire a résilié le contrat vendredi."),
    ("issue", "comment", "La base de test a été effacée par erreur."),
    ("issue", "comment", "El servidor de pruebas se quemó y perdimos los datos."),
    ("issue", "comment", "Nos robaron dos tabletas del depósito."),
    ("issue", "comment", "The licence expired on Sunday, so nobody on the team can open the models."),
)
NOTHING = (
    ("mail", "No risks from my side, all good."),
    ("comment", "This is no longer blocked, thanks."),
    ("comment", "The risk of a late delivery is gone, the crates are here."),
    ("comment", "Is there a risk that we lose data?"),
    ("comment", "What if the vendor fails?"),
    ("description", "If the user enters a wrong password, the account will be locked."),
    ("description", "If the payment fails, the order will not be shipped."),
    ("comment", "Fixed, the index was missing."),
    ("comment", "Deployed to staging, waiting time is now below 2 seconds."),
    ("comment", "Reviewed, two small remarks."),
    ("comment", "The dependency on lodash was updated to 4.17."),
    ("description", "Add a retry when the service is down."),
    ("description", "Show a warning if the stock might run out."),
    ("comment", "Kein Risiko, ist nur Text."),
    ("comment", "Wir sind nicht mehr blockiert."),
    ("comment", "Risiko ist vom Tisch, die Teile sind da."),
    ("comment", "Plus de blocage, la DSI a ouvert le port."),
    ("comment", "Aucun souci de notre côté."),
    ("comment", "No hay riesgo, es sólo un texto."),
    ("comment", "Ya no dependemos del banco."),
    ("mail", "The tests went well and nothing is left to do before Friday."),
    ("mail", "We can meet on Tuesday or Wednesday, whatever suits you."),
    ("mail", "Please send me the agenda before Thursday."),
    ("comment", "I will start with the second half tomorrow."),
    ("comment", "Half of the strings are translated, the rest will follow on Friday."),
    ("comment", "The meeting was moved to Thursday."),
    ("comment", "Pushed a fix, waiting for CI."),
    ("mail", "The hall is booked until 18:00."),
    ("comment", "Checked with Anna: we do not depend on them any more."),
    ("comment", "The login page is not ready yet, two fields are missing."),
    ("mail", "If you have questions, call me."),
    ("mail", "If you need anything else, I will be back on Monday."),
    ("mail", "Wenn Sie Fragen haben, können Sie mich jederzeit anrufen."),
    ("mail", "Si vous avez des questions, je serai de retour lundi."),
    ("mail", "Si necesitas algo más, estaré en la oficina el lunes."),
    ("mail", "You will receive the invoice at the end of the month, without VAT."),
    ("comment", "We had to wait two days for the parts, they arrived this morning."),
    ("comment", "Not blocked, just slow."),
    ("comment", "I can't reproduce this without the logs from the customer, have them now."),
    ("comment", "Tests pass again."),
    ("comment", "Could be a caching problem, looking into it."),
    ("comment", "Merged. Will be in tomorrow's build."),
)


@pytest.mark.parametrize(("kind", "source", "text"), STATEMENTS)
def test_reads_a_statement_with_its_sentence_as_quote(kind: str, source: str, text: str) -> None:
    (found,) = read_statements(text, Source(source))
    assert (found.kind, found.quote) == (RaidKind(kind), text)


@pytest.mark.parametrize(("source", "text"), NOTHING)
def test_takes_no_negation_question_or_plain_news_for_a_fact(source: str, text: str) -> None:
    found = [each for each in read_statements(text, Source(source)) if each.kind is not RaidKind.decision]
    assert found == []


def test_reads_a_sentence_behind_a_criterion_but_not_the_criterion() -> None:
    text = "AC: if the card fails we could lose the order. We assume the bank keeps its format."
    (found,) = read_statements(text, Source.description)
    assert found.quote == "We assume the bank keeps its format."


@pytest.mark.parametrize(
    "text",
    [
        "Blocked: the key is missing.",
        "We cannot continue until IT opens the port.",
        "Ich komme hier nicht weiter.",
    ],
)
def test_says_that_work_is_blocked(text: str) -> None:
    assert says_blocked(f"Some news first. {text}") == text


@pytest.mark.parametrize(
    "text", ["Unblocked now.", "Not blocked any more.", "Blocker resolved.", "This was blocked in March."]
)
def test_says_that_work_is_not_blocked(text: str) -> None:
    assert says_blocked(text) is None


def test_tells_an_answer_from_a_wish_for_one() -> None:
    assert says_resolved("The certificate has arrived.")
    assert not says_resolved("We hope that it is confirmed when Anna is back.")
