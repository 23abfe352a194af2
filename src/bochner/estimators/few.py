"""The model of few rows of classes, where nothing else is learned."""

from __future__ import annotations

from bochner.estimators.base import KernelMachine, Prepared
from bochner.estimators.exclusions import CRITERIA
from bochner.estimators.ridge import given_alphas
from bochner.features import FourierFeatures
from bochner.features.base import FeatureMap
from bochner.features.rows import KernelRows
from bochner.inputs.training import column_units
from bochner.kernels import Kernel
from bochner.selection.choose import Choice, Model
from bochner.selection.lengthscale import choose_for_few
from bochner.selection.policy import POLICY


def choose_few(machine: KernelMachine, rows: Prepared) -> Choice | None:
    """One lengthscale and ridge term by leave-one-out log loss; None where arguments or rows are not for that.

    The map is the exact kernel with the rows, unless features, their number or their solver are asked for: of 100 and
    200 images of digits, 784 columns, 2,048 Fourier features lose a percent of the rows, and take longer.
    """
    if isinstance(machine.kernel, Kernel) or machine.features not in ("auto", "fourier"):
        return None
    found = choose_for_few(rows.source, machine.kernel, column_units(machine.encoder_), given_alphas(machine.alpha))
    if found is None:
        return None
    features: FeatureMap = KernelRows(found.kernel)
    exact = _by_kernel(machine)
    if not exact:
        size = POLICY.few_features if isinstance(machine.n_components, str) else int(machine.n_components)
        features = FourierFeatures(found.kernel, size, random_state=rows.seed)
    model = Model(features, None, found.report, found.alpha_per_weight)
    return Choice(model, predictions=found.predictions if exact else None)


def _by_kernel(machine: KernelMachine) -> bool:
    """Whether the exact kernel serves what the arguments ask for."""
    if machine.solver != "auto":
        return machine.solver == "exact"
    if machine.loss not in ("auto", "squared"):
        return False
    criterion = isinstance(machine.alpha, str) and machine.alpha in CRITERIA
    return machine.features == "auto" and isinstance(machine.n_components, str) and not criterion
