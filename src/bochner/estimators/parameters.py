"""What each parameter of the estimators may be: one table, which the estimators and the command read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from bochner.estimators.exclusions import (
    BINNED,
    CLASS_LOSSES,
    CRITERIA,
    LEARNED,
    NUMBER_LOSSES,
    Given,
    conflict,
    named_kernels,
)


@dataclass(frozen=True)
class Parameter:
    """What one parameter may be.

    Attributes
    ----------
    help : str
        One line for the command.
    kinds : tuple of str
        Keys of `KINDS`, and "word", in the order in which errors name them. A parameter without any is checked where
        it is used.
    words : tuple of str
        Strings that are allowed; of the kernel, the names of kernels are too.
    """

    help: str
    kinds: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


PARAMETERS = {
    "kernel": Parameter("Kernel: gaussian, laplacian, hat, matern32, ... or auto.", ("kernel", "word"), ("auto",)),
    "features": Parameter(
        "Feature map: fourier, binning, hybrid, or auto (by validation loss).",
        ("word", "map"),
        ("auto", "fourier", *BINNED),
    ),
    "n_components": Parameter(
        "Number of features, or of grids for binning; auto adapts it to the data.", ("integer", "word"), ("auto",)
    ),
    "metric": Parameter(
        "Lengthscales: isotropic, ard (one per column), full (a linear map), or auto.",
        ("word",),
        ("auto", "isotropic", *LEARNED),
    ),
    "alpha": Parameter(
        "Ridge penalty: a number, loo, gcv, or auto.", ("number", "numbers", "word"), ("auto", *CRITERIA)
    ),
    "loss": Parameter(
        "Loss: squared; logistic or squared_hinge for classes; huber, quantile or poisson for numbers; or auto.",
        ("word",),
        ("auto", "squared", *CLASS_LOSSES, *NUMBER_LOSSES),
    ),
    "quantile": Parameter("Quantile for loss=quantile, between 0 and 1.", ("share",)),
    "solver": Parameter(
        "Solver: direct, cg, exact (the full kernel matrix), or auto, by cost.",
        ("word",),
        ("auto", "direct", "cg", "exact"),
    ),
    "tol": Parameter("Relative error at which conjugate gradients stop.", ("number",)),
    "class_weight": Parameter("Class weights, or balanced."),
    "uncertainty": Parameter(
        "True, intervals, or std: what to learn for intervals, standard deviations and samples.",
        ("flag", "word"),
        ("intervals", "std"),
    ),
    "time_limit": Parameter("Time limit of a fit in seconds.", ("number", "none")),
    "random_state": Parameter("Random seed of the features.", ("seed",)),
    "verbose": Parameter("Whether to show progress.", ("flag", "level")),
}


def allowed_words(name: str) -> tuple[str, ...]:
    """Strings that a parameter may be."""
    words = PARAMETERS[name].words
    return (*words, *named_kernels()) if name == "kernel" else words


def check_parameters(model: Any) -> None:
    """Raise TypeError or ValueError where a parameter of an estimator is out of range, or excludes another one."""
    if model.loss not in model.losses:
        raise ValueError(f"loss must be one of {model.losses}, got {model.loss!r:.200}.")
    for name in PARAMETERS:
        if hasattr(model, name):
            check_parameter(name, getattr(model, name))
    uncertain = getattr(model, "uncertainty", False)
    given = Given(model.kernel, model.features, model.metric, model.alpha, model.solver, model.loss, uncertain)
    if found := conflict(given):
        raise ValueError(found.message)


def check_parameter(name: str, value: Any) -> None:
    """Raise TypeError or ValueError where a parameter, by itself, is none of what it may be."""
    parameter = PARAMETERS[name]
    if not parameter.kinds or (isinstance(value, str) and value in allowed_words(name)):
        return
    kind = next((KINDS[kind] for kind in parameter.kinds if kind in KINDS and KINDS[kind].is_of(value)), None)
    if kind is None:
        choice = isinstance(value, str) and len(parameter.words) > 1
        error = TypeError if {"integer", "number"} & {*parameter.kinds} and not choice else ValueError
        raise error(f"{name} must be {_described(name, parameter.kinds)}, got {value!r:.200}.")
    try:
        within = kind.within(value)
    except TypeError as fault:  # as_map tells what is no map
        raise TypeError(f"{name} must be {_described(name, parameter.kinds)}: {fault}") from None
    if not within:
        raise ValueError(f"{name} must be {kind.range_name}, got {value!r:.200}.")


def read_parameter(name: str, text: str) -> Any:
    """Value of a parameter from its text on a command line.

    Raises
    ------
    ValueError
        Where the text is none of what the parameter may be; the message says what that is.
    """
    if text in allowed_words(name):
        return text
    kinds = [kind for kind in PARAMETERS[name].kinds if kind == "word" or KINDS[kind].read]
    for kind in (KINDS[kind] for kind in kinds if kind in KINDS):
        with suppress(ValueError):
            value = kind.read(text) if kind.read else None
            if not kind.within(value):
                break
            return value
    raise ValueError(f"'{text}' is not {_described(name, kinds)}")


def _described(name: str, kinds: Iterable[str]) -> str:
    """What a parameter may be, in words."""
    words = allowed_words(name)
    listed = f"one of {words}" if len(words) > 1 else "".join(map(repr, words))
    *most, last = [listed if kind == "word" else KINDS[kind].phrase for kind in kinds]
    return f"{', '.join(most)} or {last}" if most else last


@dataclass(frozen=True)
class Kind:
    """A kind of value: how errors name it, what is of it and, of that, what is in range; how text is read as it."""

    phrase: str
    is_of: Callable[[Any], bool]
    within: Callable[[Any], bool] = lambda value: True
    range_name: str = ""
    read: Callable[[str], Any] | None = None


def _is_kernel(value: Any) -> bool:
    from bochner.kernels import Kernel

    return isinstance(value, Kernel)


def _is_usable_map(value: Any) -> bool:
    """True; TypeError, which says what to give, where `value` is neither a map nor a transformer."""
    from bochner.features.transformer import as_map

    return as_map(value) is not None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are_numbers(value: Any) -> bool:
    import numpy as np

    values = np.asarray(value)
    return values.dtype.kind in "iuf" and values.ndim <= 1 and values.size > 0


def _are_positive(value: Any) -> bool:
    import numpy as np

    return bool(np.all((np.asarray(value) > 0) & np.isfinite(value)))


def _is_seed(value: Any) -> bool:
    """True; ValueError by scikit-learn, whose seeds these are, where `value` is none."""
    from sklearn.utils import check_random_state

    return check_random_state(value) is not None


KINDS = {
    "kernel": Kind("a Kernel", _is_kernel),
    "map": Kind("a map", lambda value: value is not None and not isinstance(value, str), _is_usable_map),
    "integer": Kind(
        "a positive integer",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool),
        lambda value: value >= 1,
        "positive",
        int,
    ),
    "share": Kind("a number within 0 and 1", _is_number, lambda value: 0 < value < 1, "above 0 and below 1", float),
    "number": Kind("a positive number", _is_number, _are_positive, "positive and finite", float),
    "numbers": Kind("a sequence of them", _are_numbers, _are_positive, "positive and finite"),
    "none": Kind("None", lambda value: value is None),
    "flag": Kind("True or False", lambda value: isinstance(value, bool)),
    "level": Kind(
        "an integer",
        lambda value: isinstance(value, Integral | bool) or type(value).__name__ == "bool_",
        lambda value: value >= 0,
        "0 or more",
        int,
    ),
    "seed": Kind(
        "an integer from 0 to 4294967295",
        _is_seed,
        lambda value: not isinstance(value, Integral) or 0 <= int(value) < 2**32,
        "from 0 to 4294967295",
        int,
    ),
}
