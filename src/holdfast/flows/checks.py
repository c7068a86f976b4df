"""Checks of a flow's declaration, made when it is declared: each raises `DeclarationError`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.flows.declaration import Cancel, State, Step, Wait

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow


def check_states(flow: str, states: tuple[State, ...], initial: str, cancel: Cancel | None) -> None:
    """Raise unless names are unique, targets exist, and every state is reachable and can reach an end.

    `flow` is the flow's name. Steps, waits, answers and the cancellation are checked too.
    """
    names = [state.name for state in states]
    _refuse_duplicates(flow, names, "states")
    _refuse_duplicates(
        flow, [state.action.name for state in states if isinstance(state.action, Step)], "steps"
    )
    if initial not in names:
        raise DeclarationError(f"The initial state {initial!r} of the flow {flow} is not one of its states.")
    for state in states:
        _refuse_unknown(flow, f"The state {state.name}", state.to, names)
        _check_state(flow, state)
    if cancel is not None:
        _refuse_unknown(flow, "Its cancellation", (*cancel.from_states, cancel.to), names)
        _refuse_cancel_after_end(flow, cancel, states)
    _refuse_unreachable(flow, states, initial, cancel)
    _refuse_endless(flow, states, cancel)


def check_flow(flow: Flow[Any], token_secret: str | None) -> None:
    """Raise unless waits with answers have a secret, shards are 1 to 999, and the item can store what states
    show.
    """
    if token_secret is None and flow.has_answers:
        raise DeclarationError(
            f"The flow {flow.name} waits for answers, so it needs a secret for its tokens: set "
            "token_secret='…'."
        )
    if not 1 <= flow.shards <= 999:
        raise DeclarationError(f"Invalid shards={flow.shards} of the flow {flow.name}: expected 1 to 999.")
    for state in flow.states.values():
        _check_shown(flow, state)


def _check_shown(flow: Flow[Any], state: State) -> None:
    """Raise unless exactly a flow with a shown attribute gives its states a `shown_as`, which the attribute
    can store.
    """
    if flow.shown_attribute is None:
        if state.shown_as is not None:
            raise DeclarationError(
                f"The state {state.name} of {flow.name} has shown_as={state.shown_as!r}, but the flow has no "
                "shown_attribute: set it."
            )
        return
    if state.shown_as is None:
        raise DeclarationError(
            f"The flow {flow.name} shows its states as {flow.shown_attribute!r}, but {state.name} has no "
            "value for it: set shown_as=…."
        )
    try:
        flow.shown_attribute.attribute.encode(state.shown_as)
    except InvalidRequest as error:
        raise DeclarationError(
            f"Invalid shown_as of the state {state.name} of {flow.name}: {error}"
        ) from error


def _check_state(flow: str, state: State) -> None:
    """Check the state's step or wait."""
    where = f"{state.name} of the flow {flow}"
    if isinstance(state.action, Step):
        _check_step(where, state.action)
    if not isinstance(state.action, Wait):
        return
    _check_wait(where, state.action)


def _check_wait(where: str, wait: Wait) -> None:
    """Raise unless something can end the wait and its deadline settings fit together.

    `where` names it in messages.
    """
    if not wait.answers and wait.deadline_s is None:
        raise DeclarationError(f"{where} has neither answers nor a deadline: nothing would ever leave it.")
    if (wait.deadline_s is None) != (not wait.deadline_states):
        raise DeclarationError(f"{where}: set both deadline_s and deadline_to, or neither.")
    if wait.on_deadline is None and len(wait.deadline_states) > 1:
        raise DeclarationError(
            f"{where} leads to {' or '.join(wait.deadline_states)} at its deadline, but nothing decides: "
            "set on_deadline=…, or one state."
        )
    if wait.deadline_from_next and wait.deadline_s is None:
        raise DeclarationError(
            f"{where}: deadline_from_next=True needs a default; set deadline_s and deadline_to."
        )
    if wait.on_deadline is not None and not wait.deadline_states:
        raise DeclarationError(f"{where} has on_deadline, but no deadline: set deadline_s and deadline_to.")
    if wait.deadline_s is not None and wait.deadline_s < 0:
        raise DeclarationError(f"Invalid deadline_s={wait.deadline_s} of {where}: expected 0 or more.")
    if silent := [name for name, answer in wait.answers.items() if not answer.to]:
        raise DeclarationError(f"The answer {silent[0]} of {where} leads to no state: set `to`.")


def _check_step(where: str, step: Step) -> None:
    """Raise unless the step leads somewhere and its timeout and retries are valid.

    `where` names it in messages.
    """
    if not step.to:
        raise DeclarationError(f"The step of {where} leads to no state: set `to`, or make it an end.")
    if step.timeout_s <= 0:
        raise DeclarationError(
            f"Invalid timeout_s={step.timeout_s} of {where}: expected longer than the step takes."
        )
    for rule in step.retries:
        if rule.max_attempts < 1 or rule.retry_delay_s < 0 or rule.max_retry_delay_s < rule.retry_delay_s:
            raise DeclarationError(
                f"Invalid Retry of {where}: {rule.max_attempts} attempts with delays of {rule.retry_delay_s} "
                f"to {rule.max_retry_delay_s} s. Expected at least one attempt and retry_delay_s <= "
                "max_retry_delay_s."
            )


def _refuse_duplicates(flow: str, names: list[str], what: str) -> None:
    """Raise if a name occurs twice. `what` names the kind of thing in the message."""
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"The flow {flow} has two {what} named {', '.join(twice)}: rename one.")


def _refuse_unknown(flow: str, who: str, named: Iterable[str], names: list[str]) -> None:
    """Raise if one of the states in `named` is not one of `names`.

    `who` is the part of the flow that names it.
    """
    if strangers := [name for name in named if name not in names]:
        raise DeclarationError(
            f"{who} of the flow {flow} names {', '.join(strangers)}: expected one of {', '.join(names)}."
        )


def _refuse_cancel_after_end(flow: str, cancel: Cancel, states: tuple[State, ...]) -> None:
    """Raise if the cancellation starts from an end state."""
    if ended := [state.name for state in states if state.is_end and state.name in cancel.from_states]:
        raise DeclarationError(
            f"The flow {flow} must not be cancelled from {', '.join(ended)}: it has ended there."
        )


def _refuse_unreachable(flow: str, states: tuple[State, ...], initial: str, cancel: Cancel | None) -> None:
    """Raise if no path leads from the initial state to a state."""
    known = {state.name: state for state in states}
    reached, ahead = set[str](), [initial]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += get_targets(known[name], cancel)
    if lost := [name for name in known if name not in reached]:
        raise DeclarationError(
            f"No state leads to {', '.join(lost)} of the flow {flow}: lead to it, or remove it."
        )


def _refuse_endless(flow: str, states: tuple[State, ...], cancel: Cancel | None) -> None:
    """Raise unless every state can reach an end, not only the flow as a whole."""
    ending = {state.name for state in states if state.is_end}
    if not ending:
        raise DeclarationError(f"The flow {flow} has no end: add a state without a step and without a wait.")
    while more := {
        state.name
        for state in states
        if state.name not in ending and ending & set(get_targets(state, cancel))
    }:
        ending |= more
    if stuck := [state.name for state in states if state.name not in ending]:
        raise DeclarationError(f"The flow {flow} cannot reach an end from {', '.join(stuck)}: lead to one.")


def get_targets(state: State, cancel: Cancel | None) -> tuple[str, ...]:
    """Return the states that a state may lead to, cancellation included."""
    return (*state.to, cancel.to) if cancel is not None and state.name in cancel.from_states else state.to
