"""The two convergence claims of Rahimi and Recht (2007) as tools: bounds, the sizes they ask for, measured errors."""

from bochner.theory.approximation import KernelError, kernel_error
from bochner.theory.bounds import (
    binning_failure_bound,
    fourier_failure_bound,
    guaranteed_error,
    pointwise_failure_bound,
    required_components,
    required_grids,
)
from bochner.theory.dimension import StatisticalComponents, effective_dimension, statistical_components
from bochner.theory.rates import break_rates, lipschitz_constant, spectral_variance

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
