"""Public names of `holdfast`: a star import gives exactly those of the model and the runtime."""

from __future__ import annotations

import holdfast
from holdfast import model, runtime


def test_everything_of_the_model_and_the_runtime_can_be_imported_with_a_star() -> None:
    names: dict[str, object] = {}
    exec("from holdfast import *", names)

    assert names.keys() - {"__builtins__"} == {*model.__all__, *runtime.__all__}
    assert names["Table"] is model.Table
    assert {*model.__all__, *runtime.__all__} < set(dir(holdfast))
