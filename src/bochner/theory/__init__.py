"""The two convergence claims of Rahimi and Recht (2007) as tools: bounds, the sizes
they ask for, measured errors.
"""

from bochner.theory.approximation import KernelError, kernel_error
from bochner.theory.bounds import (
    binning_failure_bound,
    break_rates,
    fourier_failure_bound,
    guaranteed_error,
    lipschitz_constant,
    pointwise_failure_bound,
    required_components,
    required_grids,
    spectral_variance,
)
from bochner.theory.dimension import (
    StatisticalComponents,
    effective_dimension,
    statistical_components,
)

__all__ = [
    "KernelError",
    "StatisticalComponents",
    "binning_failure_bound",
    "break_rates",
    "effective_dimension",
    "fourier_failure_bound",
    "guaranteed_error",
    "kernel_error",
    "lipschitz_constant",
    "pointwise_failure_bound",
    "required_components",
    "required_grids",
    "spectral_variance",
    "statistical_components",
]
