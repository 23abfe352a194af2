"""What the commands `fit` and `plan` are given, and what follows from it."""

from __future__ import annotations

from inspect import signature
from types import SimpleNamespace
from typing import Any

from bochner.cli.failures import Facts
from bochner.estimators.parameters import CLASS_LOSSES, NUMBER_LOSSES

# That do not change the model or its scores, or that its file names otherwise
APART = {"data", "target", "task", "out", "json", "traceback"}


def defaults() -> dict[str, Any]:
    """Arguments and options of `fit`, with what they are where they are not given."""
    from bochner.cli.app import fit

    return {one.name: one.default for one in signature(fit).parameters.values()}


class Arguments(SimpleNamespace):
    """Arguments and options of `fit` by their names; a plan has some of them."""

    def __init__(self, **given: Any) -> None:
        exclude = given["exclude"] or []
        super().__init__(**{**defaults(), **given, "exclude": exclude})

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
        for name, default in defaults().items():
            value = getattr(self, name)
            if name in APART or value in (default, None, []):
                continue
            for one in value if isinstance(value, list) else [value]:
                words.append(f"--{name.replace('_', '-')}")
                words += [] if one is True else [str(one)]
        return words
