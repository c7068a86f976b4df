"""Whether a flow is declared soundly: said when it is declared, and not when the first item gets stuck."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.flows.declaration import Cancel, State, Step, Wait

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow


def check_states(flow: str, states: tuple[State, ...], begins: str, cancel: Cancel | None) -> None:
    """Names that are there once, targets that exist, states that can be come to, and an end."""
    names = [state.name for state in states]
    _refuse_twins(flow, names, "states")
    _refuse_twins(flow, [state.does.name for state in states if isinstance(state.does, Step)], "steps")
    if begins not in names:
        raise DeclarationError(f"The flow {flow} begins in {begins!r}, which is none of its states.")
    for state in states:
        _refuse_strangers(flow, f"The state {state.name}", state.to, names)
        _check_leaving(flow, state)
    if cancel is not None:
        _refuse_strangers(flow, "Its cancellation", (*cancel.frm, cancel.to), names)
        _refuse_ended(flow, cancel, states)
    _refuse_unreachable(flow, states, begins, cancel)
    _refuse_endless(flow, states, cancel)


def check_fits(flow: Flow[Any], token_secret: str | None) -> None:
    """What the states say of the item can be kept there, and what is to be answered has a secret."""
    if token_secret is None and flow.has_answers:
        raise DeclarationError(
            f"The flow {flow.name} waits for answers, and so needs a secret to make tokens with: token_secret='…'."
        )
    if not 1 <= flow.shards <= 999:
        raise DeclarationError(f"The flow {flow.name} has {flow.shards} shards: give it 1 to 999.")
    for state in flow.states.values():
        _check_shown(flow, state)


def _check_shown(flow: Flow[Any], state: State) -> None:
    if flow.shows is None:
        if state.shown is not None:
            raise DeclarationError(
                f"The state {state.name} of {flow.name} is shown as {state.shown!r}, and the flow does not say where: "
                "give it shows=…."
            )
        return
    if state.shown is None:
        raise DeclarationError(
            f"The flow {flow.name} shows its states as {flow.shows!r}, and {state.name} does not say as what: give it "
            "shown=…."
        )
    try:
        flow.shows.attribute.encode(state.shown)
    except InvalidRequest as error:
        raise DeclarationError(
            f"The state {state.name} of {flow.name} cannot be shown so: {error}"
        ) from error


def _check_leaving(flow: str, state: State) -> None:
    where = f"{state.name} of the flow {flow}"
    if isinstance(state.does, Step):
        _check_step(where, state.does)
    if not isinstance(state.does, Wait):
        return
    _check_wait(where, state.does)


def _check_wait(where: str, wait: Wait) -> None:
    if not wait.answers and wait.deadline_s is None:
        raise DeclarationError(
            f"{where} waits for no answer and has no deadline: nothing would ever leave it."
        )
    if (wait.deadline_s is None) != (not wait.late_states):
        raise DeclarationError(f"{where} needs both, deadline_s and late_to, or neither.")
    if wait.late is None and len(wait.late_states) > 1:
        raise DeclarationError(
            f"{where} leads to {' or '.join(wait.late_states)} at its deadline, and nothing decides: give it late=…, or one "
            "state."
        )
    if wait.deadline_given and wait.deadline_s is None:
        raise DeclarationError(
            f"{where} is given its deadline, and has none for who gives none: give it deadline_s and late_to."
        )
    if wait.late is not None and not wait.late_states:
        raise DeclarationError(
            f"{where} says what happens when it is late, and has no deadline: give it one."
        )
    if wait.deadline_s is not None and wait.deadline_s < 0:
        raise DeclarationError(f"{where} has a deadline of {wait.deadline_s} s: give it 0 or more.")
    if silent := [name for name, answer in wait.answers.items() if not answer.to]:
        raise DeclarationError(f"{where} leads nowhere by the answer {silent[0]}: say where to.")


def _check_step(where: str, step: Step) -> None:
    if not step.to:
        raise DeclarationError(f"{where} has a step that leads nowhere: say where to, or make it an end.")
    if step.limit_s <= 0:
        raise DeclarationError(
            f"{where} has a limit of {step.limit_s} s: give it longer than the step takes."
        )
    for rule in step.retries:
        if rule.tries < 1 or rule.pause_s < 0 or rule.pause_s_max < rule.pause_s:
            raise DeclarationError(
                f"{where} is tried {rule.tries} times with pauses of {rule.pause_s} to {rule.pause_s_max} s: give one try "
                "at least, and the larger pause last."
            )


def _refuse_twins(flow: str, names: list[str], what: str) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DeclarationError(f"The flow {flow} has two {what} named {', '.join(twice)}: rename one.")


def _refuse_strangers(flow: str, who: str, named: Iterable[str], names: list[str]) -> None:
    if strangers := [name for name in named if name not in names]:
        raise DeclarationError(
            f"{who} of the flow {flow} names {', '.join(strangers)}, which is none of its states: {', '.join(names)}."
        )


def _refuse_ended(flow: str, cancel: Cancel, states: tuple[State, ...]) -> None:
    if ended := [state.name for state in states if state.is_end and state.name in cancel.frm]:
        raise DeclarationError(
            f"The flow {flow} cannot be cancelled from {', '.join(ended)}: it has ended there."
        )


def _refuse_unreachable(flow: str, states: tuple[State, ...], begins: str, cancel: Cancel | None) -> None:
    known = {state.name: state for state in states}
    reached, ahead = set[str](), [begins]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += targets(known[name], cancel)
    if lost := [name for name in known if name not in reached]:
        raise DeclarationError(
            f"Nothing leads to {', '.join(lost)} of the flow {flow}: lead there, or drop it."
        )


def _refuse_endless(flow: str, states: tuple[State, ...], cancel: Cancel | None) -> None:
    """Every state must be able to come to an end, not only the flow as a whole."""
    ending = {state.name for state in states if state.is_end}
    if not ending:
        raise DeclarationError(
            f"The flow {flow} has no end: give it a state without a step and without a wait."
        )
    while more := {
        state.name for state in states if state.name not in ending and ending & set(targets(state, cancel))
    }:
        ending |= more
    if stuck := [state.name for state in states if state.name not in ending]:
        raise DeclarationError(f"From {', '.join(stuck)} the flow {flow} can come to no end: lead to one.")


def targets(state: State, cancel: Cancel | None) -> tuple[str, ...]:
    """Where a state may lead to, cancellation included."""
    return (*state.to, cancel.to) if cancel is not None and state.name in cancel.frm else state.to
