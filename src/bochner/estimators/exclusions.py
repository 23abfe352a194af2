"""Which parameters of the estimators exclude one another, and what to do then."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

BINNED, LEARNED, CRITERIA = ("binning", "hybrid"), ("ard", "full"), ("gcv", "loo")
CLASS_LOSSES, NUMBER_LOSSES = ("logistic", "squared_hinge"), ("huber", "quantile", "poisson")


@dataclass(frozen=True)
class Given:
    """Parameters that are given together, each of them valid by itself.

    Attributes
    ----------
    kernel, features, metric, alpha, solver, loss, uncertainty
        As of the estimators.
    form : callable
        Writes a parameter and its value as the user does: as in Python, or as an option of the command.
    """

    kernel: Any
    features: Any
    metric: str
    alpha: Any
    solver: str
    loss: str = "auto"
    uncertainty: bool | str = False
    form: Callable[[str, Any], str] = "{}={!r}".format

    def write(self, name: str, value: Any = None) -> str:
        """Write a parameter with its value, or with another one."""
        return self.form(name, getattr(self, name) if value is None else value)

    @property
    def own_map(self) -> bool:
        """Whether the features are a map, not the name of one."""
        return not isinstance(self.features, str)

    @property
    def own_kernel(self) -> bool:
        """Whether the kernel is one, not the name of one."""
        return not isinstance(self.kernel, str)

    @property
    def binned(self) -> bool:
        """Whether the features are named, and bins or partly bins."""
        return not self.own_map and self.features in BINNED

    @property
    def criterion(self) -> bool:
        """Whether a criterion of the direct solver chooses alpha."""
        return isinstance(self.alpha, str) and self.alpha in CRITERIA


class Conflict(NamedTuple):
    """The parameter that is at fault, and a message that says what to do."""

    parameter: str
    message: str


def conflict(given: Given) -> Conflict | None:
    """Return the first conflict of the parameters that are given, None where they go together."""
    found = (Conflict(name, message) for name, rule in RULES if (message := rule(given)) is not None)
    return next(found, None)


def named_kernels() -> dict[str, Any]:
    """Kernels of the names that the estimators take, imported late: the command shows its help without them."""
    from bochner.kernels.named import NAMED

    return NAMED


def kernels_with_bins() -> tuple[str, ...]:
    """Names of the kernels that have bins."""
    names = []
    for name, kernel in named_kernels().items():
        with suppress(ValueError):
            kernel().pitch_measure()
            names.append(name)
    return tuple(names)


def _kernel_beside_a_map(given: Given) -> str | None:
    if not given.own_map or given.kernel == "auto":
        return None
    return f"features is a map with its own kernel: keep {given.write('kernel', 'auto')}."


def _kernel_rows(given: Given) -> str | None:
    from bochner.features.rows import has_kernel_rows

    if given.solver == "exact" or not has_kernel_rows(given.features):
        return None
    return "KernelRows belong to solver='exact', which makes them of a kernel: use solver='exact', or kernel=."


def _own_lengthscales(given: Given) -> str | None:
    if given.metric not in LEARNED or not (given.own_kernel or given.own_map):
        return None
    return (
        f"{given.write('metric')} learns lengthscales, but the kernel or map given has its own: keep "
        f"{given.write('metric', 'auto')}, or give the kernel by name."
    )


def _exact_bins(given: Given) -> str | None:
    if given.solver != "exact" or not given.binned:
        return None
    return (
        f"{given.write('solver')} computes the kernel itself, without {given.write('features')}: keep "
        f"{given.write('features', 'auto')}; the kernel of bins is {given.write('kernel', 'laplacian')}."
    )


def _direct_bins(given: Given) -> str | None:
    if given.solver != "direct" or not given.binned:
        return None
    return (
        f"{given.write('solver')} needs dense features; bins are solved by conjugate gradients: use "
        f"{given.write('solver', 'auto')} or {given.write('solver', 'cg')}."
    )


def _criterion_of_bins(given: Given) -> str | None:
    if not given.criterion or not given.binned:
        return None
    return (
        f"{given.write('alpha')} needs the direct solver; bins are solved by conjugate gradients: use "
        f"{given.write('alpha', 'auto')} or numbers, or {given.write('features', 'fourier')}."
    )


def _criterion_by_iterations(given: Given) -> str | None:
    if not given.criterion or given.solver != "cg":
        return None
    return (
        f"{given.write('alpha')} needs the direct solver: use {given.write('solver', 'direct')}, or "
        f"{given.write('alpha', 'auto')} or numbers."
    )


def _learned_bins(given: Given) -> str | None:
    learned = given.binned and (given.features == "hybrid" or given.metric in LEARNED)
    if not learned or (not given.own_kernel and given.kernel in ("auto", "laplacian")):
        return None
    return (
        f"{given.write('features')} with a learned metric needs the Laplacian kernel: use "
        f"{given.write('kernel', 'auto')}, or {given.write('features', 'fourier')}."
    )


def _kernel_without_bins(given: Given) -> str | None:
    if not given.binned or given.own_kernel or given.kernel in ("auto", *(names := kernels_with_bins())):
        return None
    return (
        f"{given.write('kernel')} has no bins: use auto, {', '.join(names[:-1])} or {names[-1]}, or "
        f"{given.write('features', 'fourier')}."
    )


def _one_lengthscale_of_hybrids(given: Given) -> str | None:
    if given.features != "hybrid" or given.metric != "isotropic":
        return None
    return (
        f"{given.write('features')} learns its metrics: use {given.write('metric', 'auto')}, ard or full, or, in "
        "Python, ConcatenatedFeatures."
    )


def _loss_of_all_rows(given: Given) -> str | None:
    if given.solver != "exact" or given.loss in ("auto", "squared"):
        return None
    return (
        f"{given.write('solver')} minimises squared errors: use {given.write('solver', 'auto')}, or "
        f"{given.write('loss', 'squared')}."
    )


def _uncertainty_by_loss(given: Given) -> str | None:
    if not given.uncertainty or given.loss in ("auto", "squared"):
        return None
    return (
        f"Standard deviations and intervals need the squared loss: use {given.write('loss', 'squared')}, or leave "
        "uncertainty out; for a single quantile use the quantile loss."
    )


RULES: tuple[tuple[str, Callable[[Given], str | None]], ...] = (
    ("kernel", _kernel_beside_a_map),
    ("features", _kernel_rows),
    ("metric", _own_lengthscales),
    ("solver", _exact_bins),
    ("solver", _direct_bins),
    ("alpha", _criterion_of_bins),
    ("alpha", _criterion_by_iterations),
    ("kernel", _learned_bins),
    ("kernel", _kernel_without_bins),
    ("metric", _one_lengthscale_of_hybrids),
    ("loss", _loss_of_all_rows),
    ("uncertainty", _uncertainty_by_loss),
)
