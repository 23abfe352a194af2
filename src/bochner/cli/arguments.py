"""What the commands `fit` and `plan` are given, and what follows from it."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

from bochner.cli.failures import Facts
from bochner.estimators.parameters import CLASS_LOSSES, NUMBER_LOSSES

TEST_SIZE = 0.2  # unless another share is given
# Of the estimators, which have the names of options
PARAMETERS = (
    "kernel",
    "features",
    "n_components",
    "alpha",
    "loss",
    "solver",
    "metric",
    "time_limit",
)
OPTIONS = (
    *PARAMETERS,
    "dates",
    "seed",
    "group",
    "time",
    "memory_limit",
    "sample",
    "dask",
    "device",
)


# Options that a plan does not have
ONLY_OF_FIT = {
    "loss": "auto",
    **dict.fromkeys(("time_limit", "seed", "numeric", "text", "dates", "time")),
    **dict.fromkeys(("uncertainty", "unbounded"), False),
}


class Arguments(SimpleNamespace):
    """Arguments and options by their names."""

    def __init__(self, **given: Any) -> None:
        exclude = given["exclude"] or []
        super().__init__(**{**ONLY_OF_FIT, **given, "exclude": exclude})

    @property
    def asked_task(self) -> str:
        """The task that is asked for, perhaps by a loss that only one of both has."""
        if self.task == "auto" and self.loss in NUMBER_LOSSES:
            return "regression"
        if self.task == "auto" and self.loss in CLASS_LOSSES:
            return "classification"
        return str(self.task)

    @property
    def how_text_is_read(self) -> Facts:
        """Parameters of the encoder."""
        day_first = None if self.dates is None else self.dates == "day-first"
        return {"text_features": self.text or None, "day_first": day_first}

    @property
    def options(self) -> list[str]:
        """What was given on the command line and changes the model or its scores, as
        it is given there.
        """
        words = []
        for name in OPTIONS:
            value = getattr(self, name)
            if value not in ("auto", None):
                words += [f"--{name.replace('_', '-')}", str(value)]
        if self.test_size != TEST_SIZE:
            words += ["--test-size", str(self.test_size)]
        for name in ("numeric", "text", "exclude"):
            for column in getattr(self, name) or []:
                words += [f"--{name}", column]
        flags = ("uncertainty", "unbounded")
        return words + [f"--{name}" for name in flags if getattr(self, name)]


def fit_line(saved: Any) -> str:
    """The command that fitted a model; the table of its rows is not known."""
    words = ["--target", str(saved.target), "--task", saved.task, *saved.options]
    words += ["--out", str(saved.path)]
    return "bochner fit TRAINING_TABLE " + shlex.join(words)
