"""Stages of an accepted request, each the consumer of its own queue.

`PIPELINE` in `domain.statuses` is their order; a stage's module has the stage's name. The api_connector calls
the payer; a payer's callback enters at the callback_handler. `base_stage` is the base class of the stages,
`notifier` delivers webhooks to clients and `audit_archiver` writes audit events to the audit bucket.
"""

from __future__ import annotations

from importlib import import_module

from pagw.domain.statuses import PIPELINE, Stage
from pagw.workers.stages.base_stage import BaseStage


def load_stages() -> dict[Stage, type[BaseStage]]:
    """Import the module of each stage of the pipeline and return its class, in the order of the pipeline."""
    return {step.stage: _find_class(step.stage) for step in PIPELINE}


def _find_class(stage: Stage) -> type[BaseStage]:
    """Return the class in the stage's module."""
    module = import_module(f"{__name__}.{stage.name}")
    [found] = (
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, BaseStage) and each.__module__ == module.__name__
    )
    return found
