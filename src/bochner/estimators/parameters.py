"""What each parameter of the estimators may be, and which exclude one another: read
by estimators and the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

BINNED, LEARNED, CRITERIA = ("binning", "hybrid"), ("ard", "full"), ("gcv", "loo")
CLASS_LOSSES, ROBUST_LOSSES = ("logistic", "squared_hinge"), ("huber", "quantile")
NUMBER_LOSSES = (*ROBUST_LOSSES, "poisson")
KERNELS_WITH_BINS = ("laplacian", "hat", "smoothbins")


class Conflict(NamedTuple):
    """Parameters that exclude one another: the one at fault, and what to do."""

    parameter: str
    message: str


def conflict(
    given: Any, form: Callable[[str, Any], str] = "{}={!r}".format
) -> Conflict | None:
    """The first conflict of the parameters of an estimator, or of an object that has
    them, each of them valid by itself; None if there is none.

    `form` writes a parameter and its value as the user does: as in Python, or as an
    option of the command.
    """

    def written(part: re.Match[str]) -> str:
        return form(part[1], part[2] or getattr(given, part[1]))

    for parameter, message in _conflicts(given):
        return Conflict(parameter, re.sub(r"\{(\w+):?(\w*)\}", written, message))
    return None


def _conflicts(given: Any) -> Iterator[tuple[str, str]]:
    """Parameters at fault, and what to do.

    In a message "{solver}" stands for a parameter with its value, "{solver:auto}" for
    the parameter with another one.
    """
    kernel, features = given.kernel, given.features
    own_kernel = not isinstance(kernel, str)
    own_map = not isinstance(features, str)
    is_binned = not own_map and features in BINNED
    is_learned = given.metric in LEARNED
    by_criterion = isinstance(given.alpha, str) and given.alpha in CRITERIA
    other_loss = given.loss not in ("auto", "squared")
    if own_map and kernel != "auto":
        yield (
            "kernel",
            "features is a map with its own kernel: keep {kernel:auto}.",
        )
    if own_map and given.solver != "exact":
        from bochner.features.nystroem import has_kernel_rows

        if has_kernel_rows(features):
            yield (
                "features",
                "KernelRows belong to solver='exact', which makes them of a kernel: "
                "use solver='exact', or kernel=.",
            )
    if is_learned and (own_kernel or own_map):
        yield (
            "metric",
            "{metric} learns lengthscales, but the kernel or map given has its own: "
            "keep {metric:auto}, or give the kernel by name.",
        )
    if is_binned and given.solver == "exact":
        yield (
            "solver",
            "{solver} computes the kernel itself, without {features}: keep "
            "{features:auto}; the kernel of bins is {kernel:laplacian}.",
        )
    if is_binned and given.solver == "direct":
        yield (
            "solver",
            "{solver} needs dense features; bins are solved by conjugate gradients: "
            "use {solver:auto} or {solver:cg}.",
        )
    if is_binned and by_criterion:
        yield (
            "alpha",
            "{alpha} needs the direct solver; bins are solved by conjugate gradients: "
            "use {alpha:auto} or numbers, or {features:fourier}.",
        )
    if by_criterion and given.solver == "cg":
        yield (
            "alpha",
            "{alpha} needs the direct solver: use {solver:direct}, or {alpha:auto} or "
            "numbers.",
        )
    learns_bins = is_binned and (features == "hybrid" or is_learned)
    if learns_bins and (own_kernel or kernel not in ("auto", "laplacian")):
        yield (
            "kernel",
            "{features} with a learned metric needs the Laplacian kernel: use "
            "{kernel:auto}, or {features:fourier}.",
        )
    if (
        is_binned
        and not own_kernel
        and kernel != "auto"
        and kernel not in KERNELS_WITH_BINS
    ):
        yield (
            "kernel",
            "{kernel} has no bins: use auto, laplacian, hat or smoothbins, or "
            "{features:fourier}.",
        )
    if is_binned and features == "hybrid" and given.metric == "isotropic":
        yield (
            "metric",
            "{features} learns its metrics: use {metric:auto}, ard or full, or, in "
            "Python, ConcatenatedFeatures.",
        )
    if given.solver == "exact" and other_loss:
        yield (
            "loss",
            "{solver} minimises squared errors: use {solver:auto}, or {loss:squared}.",
        )
    if given.uncertainty and other_loss:
        yield (
            "uncertainty",
            "Standard deviations and intervals need the squared loss: use "
            "{loss:squared}, or leave uncertainty out; for a single quantile use the "
            "quantile loss.",
        )


def named_kernels() -> dict[str, Any]:
    """Kernels of the names that the estimators take, imported late: the command
    shows its help without them.
    """
    from bochner.kernels.catalogue import NAMED

    return NAMED


@dataclass(frozen=True)
class Parameter:
    """What one parameter may be.

    Attributes
    ----------
    help : str
        One line for the command.
    kinds : tuple of str
        Keys of `KINDS`, and "word", in the order in which errors name them. A parameter
        without any is checked where it is used.
    words : tuple of str
        Strings that are allowed; of the kernel, the names of kernels are too.
    """

    help: str
    kinds: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


PARAMETERS = {
    "kernel": Parameter(
        "Kernel: gaussian, laplacian, hat, matern32, ... or auto.",
        ("kernel", "word"),
        ("auto",),
    ),
    "features": Parameter(
        "Feature map: fourier, binning, hybrid, or auto (by validation loss).",
        ("word", "map"),
        ("auto", "fourier", *BINNED),
    ),
    "n_components": Parameter(
        "Number of features, or of grids for binning; auto adapts it to the data.",
        ("integer", "word"),
        ("auto",),
    ),
    "metric": Parameter(
        "Lengthscales: isotropic, ard (one per column), full (a linear map), or auto.",
        ("word",),
        ("auto", "isotropic", *LEARNED),
    ),
    "alpha": Parameter(
        "Ridge penalty: a number, loo, gcv, or auto.",
        ("number", "numbers", "word"),
        ("auto", *CRITERIA),
    ),
    "loss": Parameter(
        "Loss: squared; logistic or squared_hinge for classes; huber, quantile or "
        "poisson for numbers; or auto.",
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
    "class_weight": Parameter(
        "Class weights, or balanced.", ("weights", "none", "word"), ("balanced",)
    ),
    "uncertainty": Parameter(
        "True, intervals, or std: what to learn for intervals, standard deviations "
        "and samples.",
        ("flag", "word"),
        ("intervals", "std"),
    ),
    "time_limit": Parameter("Time limit of a fit in seconds.", ("number", "none")),
    "random_state": Parameter("Random seed of the features.", ("seed",)),
    "verbose": Parameter("Whether to show progress.", ("flag", "level")),
    "numeric_features": Parameter(
        "Columns whose integers are quantities and never codes of categories."
    ),
    "text_features": Parameter("Columns whose text is never read as dates or numbers."),
    "day_first": Parameter(
        "Whether days stand before months in dates that may be either.",
        ("flag", "none"),
    ),
    "cv": Parameter(
        "Which rows validate which: a number of folds, a splitter, or pairs of rows."
    ),
    "bounded": Parameter(
        "Whether predictions stay near the range of the targets.", ("flag",)
    ),
}


def allowed_words(name: str) -> tuple[str, ...]:
    """Strings that a parameter may be."""
    words = PARAMETERS[name].words
    return (*words, *named_kernels()) if name == "kernel" else words


# Of kernels
OTHER_NAMES = {"rbf": "'gaussian'", "linear": "LinearFeatures() as features"}


def check_parameters(model: Any) -> None:
    """Raise TypeError or ValueError where a parameter of an estimator is out of
    range, or excludes another one.
    """
    if model.loss not in model.losses:
        raise ValueError(
            f"loss must be one of {model.losses}, got {model.loss!r:.200}."
        )
    for name in PARAMETERS:
        if hasattr(model, name):
            check_parameter(name, getattr(model, name))
    if clash := conflict(model):
        raise ValueError(clash.message)


def check_parameter(name: str, value: Any) -> None:
    """Raise TypeError or ValueError where a parameter, by itself, is none of what it
    may be.
    """
    parameter = PARAMETERS[name]
    if not parameter.kinds or (isinstance(value, str) and value in allowed_words(name)):
        return
    kinds = [KINDS[name] for name in parameter.kinds if name != "word"]
    kind = next((kind for kind in kinds if kind.is_of(value)), None)
    described = _described(name, parameter.kinds)
    if kind is None:
        is_word = isinstance(value, str)
        is_choice = is_word and len(parameter.words) > 1
        is_number = {"integer", "number"} & {*parameter.kinds}
        error = TypeError if is_number and not is_choice else ValueError
        hint = (
            f" {value!r} of scikit-learn is {OTHER_NAMES[value]} here."
            if is_word and value in OTHER_NAMES
            else ""
        )
        raise error(f"{name} must be {described}, got {value!r:.200}.{hint}")
    try:
        within = kind.within(value)
    except TypeError as fault:  # as_map tells what is no map
        raise TypeError(f"{name} must be {described}: {fault}") from None
    if not within:
        raise ValueError(f"{name} must be {kind.range_name}, got {value!r:.200}.")


def read_parameter(name: str, text: str) -> Any:
    """Value of a parameter from its text on a command line.

    Raises
    ------
    ValueError
        Where the text is none of what the parameter may be; the message says what that
        is.
    """
    if text in allowed_words(name):
        return text
    kinds = [
        kind for kind in PARAMETERS[name].kinds if kind == "word" or KINDS[kind].read
    ]
    for kind in (KINDS[kind] for kind in kinds if kind != "word"):
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
    """A kind of value: how errors name it, what is of it and, of that, what is in
    range; how text is read as it.
    """

    phrase: str
    is_of: Callable[[Any], bool]
    within: Callable[[Any], bool] = lambda value: True
    range_name: str = ""
    read: Callable[[str], Any] | None = None


def _is_kernel(value: Any) -> bool:
    from bochner.kernels import Kernel

    return isinstance(value, Kernel)


def _is_usable_map(value: Any) -> bool:
    """True; TypeError, which says what to give, where `value` is neither a map nor a
    transformer.
    """
    from bochner.features.transformer import as_map

    return as_map(value) is not None


def _is_truth(value: Any) -> bool:
    """Whether a value is a boolean, also one of NumPy, which is not loaded for it."""
    kind = type(value)
    of_numpy = kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_")
    return isinstance(value, bool) or of_numpy


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are_numbers(value: Any) -> bool:
    import numpy as np

    values = np.asarray(value)
    return values.dtype.kind in "iuf" and values.ndim <= 1 and values.size > 0


def _are_in_range(value: Any) -> bool:
    import numpy as np

    return bool(np.all((np.asarray(value) >= LEAST) & (np.asarray(value) <= MOST)))


def _is_seed(value: Any) -> bool:
    """True; ValueError by scikit-learn, whose seeds these are, where `value` is
    none.
    """
    from sklearn.utils import check_random_state

    return check_random_state(value) is not None


# Beyond these the reciprocals of numbers, or sums of them, overflow
LEAST, MOST = 1e-25, 1e25
RANGE_NAME = "positive, within 1e-25 and 1e25"

KINDS = {
    "kernel": Kind("a Kernel", _is_kernel),
    "map": Kind(
        "a map",
        lambda value: value is not None and not isinstance(value, str),
        _is_usable_map,
    ),
    "integer": Kind(
        "a positive integer",
        lambda value: isinstance(value, Integral) and not isinstance(value, bool),
        lambda value: value >= 1,
        "positive",
        int,
    ),
    "share": Kind(
        "a number within 0 and 1",
        _is_number,
        lambda value: 0 < value < 1,
        "above 0 and below 1",
        float,
    ),
    "number": Kind("a positive number", _is_number, _are_in_range, RANGE_NAME, float),
    "numbers": Kind("a sequence of them", _are_numbers, _are_in_range, RANGE_NAME),
    "weights": Kind(
        "a dict of weights by label", lambda value: isinstance(value, Mapping)
    ),
    "none": Kind("None", lambda value: value is None),
    "flag": Kind("True or False", _is_truth),
    "level": Kind(
        "an integer",
        lambda value: isinstance(value, Integral) or _is_truth(value),
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
