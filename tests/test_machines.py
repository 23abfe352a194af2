"""Machines that tests share stay as they were fitted, and what changes one is seen."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest


def test_reading_changes_nothing(shared_machine):
    model, X, y = shared_machine.model, shared_machine.X, shared_machine.y
    model.predict(X)
    model.score(X, y)
    model.explain(X[:2])
    model.interactions(X[:1])
    model.effects(X[:20])
    model.importance(X, y, n_rows=50, random_state=0)
    model._repr_html_()
    shared_machine.check()


@pytest.mark.parametrize("name", ["intercept_", "feature_weights_", "background_"])
def test_a_change_is_seen(shared_machine, name):
    model = deepcopy(shared_machine.model)
    copied = replace(shared_machine, model=model)
    copied.check()
    setattr(model, name, getattr(model, name) + 1)
    with pytest.raises(AssertionError, match="has changed a machine that tests share"):
        copied.check()


def test_rows_of_arrays_are_not_written(shared_machine):
    for array in (shared_machine.X, shared_machine.y):
        if isinstance(array, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
