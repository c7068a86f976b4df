"""Fixed names of the patterns of guarantees and flows, which documents and tools refer to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from holdfast import Pattern, Rate
from holdfast.guarantees import Lease, LeaseItem
from tests.unit.flows.errands import ERRANDS
from tests.unit.guarantees.delayed_actions.delayed_letters import queue
from tests.unit.guarantees.messaging.order_outbox import OUTBOX_OF_ORDERS
from tests.unit.guarantees.messaging.sql_shop import INBOX, OUTBOX

LEASES = Lease(LeaseItem, prefix="LE", rate=Rate("sweep"))

NAMES: list[tuple[Iterable[Pattern[..., Any]], dict[str, str]]] = [
    (
        OUTBOX_OF_ORDERS.patterns,
        {
            "OB2": "order_changes_outbox_waiting",
            "OB3": "order_changes_outbox_items",
            "OB9": "order_changes_outbox_counter",
            "OB1": "order_changes_outbox_append",
            "OB10": "order_changes_outbox_count",
            "OB4": "order_changes_outbox_take_turn",
            "OB5": "order_changes_outbox_give_turn",
            "OB6": "order_changes_outbox_send",
            "OB7": "order_changes_outbox_remove",
            "OB8": "order_changes_outbox_keep",
        },
    ),
    (
        OUTBOX.patterns,
        {
            "OB6": "shop_outbox_waiting",
            "OB7": "shop_outbox_backlog",
            "OB1": "shop_outbox_append",
            "OB2": "shop_outbox_claim",
            "OB3": "shop_outbox_sent",
            "OB4": "shop_outbox_failed",
            "OB5": "shop_outbox_release",
            "OB12": "shop_outbox_send_shop_changes",
            "OB13": "shop_outbox_send_shop_invoices",
            "OB14": "shop_outbox_send_shop_notes",
            "OB8": "shop_outbox_redrive",
            "OB9": "shop_outbox_discard",
            "OB10": "shop_outbox_sweep",
            "OB11": "shop_outbox_sweep_counters",
        },
    ),
    (
        INBOX.patterns,
        {
            "IN2": "shop_inbox_stored",
            "IN1": "shop_inbox_take",
            "IN3": "shop_inbox_keep",
            "IN4": "shop_inbox_sweep",
        },
    ),
    (
        queue.patterns,
        {
            "HQ1": "hold_letter",
            "HQ2": "take_letter",
            "HQ3": "change_letter",
            "HQ4": "complete_letter",
            "HQ5": "review_letter",
            "HQ6": "due_letter",
            "HQ7": "one_letter",
            "HQ8": "waiting_letter",
        },
    ),
    (
        LEASES.patterns,
        {
            "LE1": "read_lease",
            "LE2": "take_lease",
            "LE3": "keep_lease",
            "LE4": "check_lease",
        },
    ),
    (
        ERRANDS.patterns,
        {
            "FL1": "errand_flow_item",
            "FL2": "errand_flow_move",
            "FL3": "errand_flow_place",
            "FL4": "errand_flow_begin",
            "FL5": "errand_flow_enter",
            "FL6": "errand_flow_leave",
            "FL7": "errand_flow_note",
            "FL8": "errand_flow_due",
            "FL9": "errand_flow_parked",
            "FL10": "errand_flow_places",
            "FL11": "errand_flow_receive",
            "FL12": "errand_flow_delete",
            "FL13": "errand_flow_hold",
            "FLO2": "errand_flow_outbox_waiting",
            "FLO3": "errand_flow_outbox_items",
            "FLO9": "errand_flow_outbox_counter",
            "FLO1": "errand_flow_outbox_append",
            "FLO4": "errand_flow_outbox_take_turn",
            "FLO5": "errand_flow_outbox_give_turn",
            "FLO6": "errand_flow_outbox_send",
            "FLO7": "errand_flow_outbox_remove",
            "FLO8": "errand_flow_outbox_keep",
        },
    ),
]


@pytest.mark.parametrize(
    ("patterns", "names"), NAMES, ids=["outbox", "sql outbox", "inbox", "hold queue", "lease", "flow"]
)
def test_patterns_keep_their_names(patterns: Iterable[Pattern[..., Any]], names: dict[str, str]) -> None:
    assert {each.id: each.name for each in patterns} == names
