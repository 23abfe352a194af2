"""The table of parameters: that it is whole, and that the estimators and the command
both go by it.
"""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor
from bochner.estimators.parameters import (
    KERNELS_WITH_BINS,
    PARAMETERS,
    allowed_words,
    check_parameter,
    conflict,
    named_kernels,
    read_parameter,
)

ESTIMATORS = [KernelMachineRegressor, KernelMachineClassifier]


def constructor(estimator):
    return inspect.signature(estimator).parameters


def test_table_has_the_parameters_of_the_constructors():
    assert {name for estimator in ESTIMATORS for name in constructor(estimator)} == set(
        PARAMETERS
    )


@pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__
)
def test_defaults_are_allowed(estimator):
    for name, parameter in constructor(estimator).items():
        check_parameter(name, parameter.default)


@pytest.mark.parametrize("name", PARAMETERS)
def test_words(name):
    for word in allowed_words(name):
        check_parameter(name, word)
        assert read_parameter(name, word) == word
    if words := PARAMETERS[name].words:
        assert all(word in PARAMETERS[name].help for word in words)
        with pytest.raises(
            (TypeError, ValueError), match=rf"{name} must be .*{words[-1]}"
        ):
            check_parameter(name, "none of these")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("n_components", "12", 12),
        ("alpha", "1e-3", 1e-3),
        ("time_limit", "2.5", 2.5),
        ("random_state", "4294967295", 2**32 - 1),
    ],
)
def test_numbers_from_text(name, text, value):
    assert read_parameter(name, text) == value
    assert type(read_parameter(name, text)) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "match"),
    [
        ("n_components", "1.5", "'1.5' is not a positive integer or 'auto'"),
        ("n_components", "-1", "'-1' is not a positive integer"),
        ("alpha", "inf", "'inf' is not a positive number or one of .*loo"),
        ("time_limit", "None", "'None' is not a positive number"),
        ("random_state", "-1", "'-1' is not an integer from 0 to 4294967295"),
        ("kernel", "rbf", "'rbf' is not one of .*gaussian"),
        ("features", "", "'' is not one of .*fourier"),
    ],
)
def test_text_that_is_refused(name, text, match):
    with pytest.raises(ValueError, match=match):
        read_parameter(name, text)


@pytest.mark.parametrize(
    "value", [0.5, 2, np.float32(1), np.array(3.0), [1.0, 2], (1,), np.arange(1, 4)]
)
def test_alphas(value):
    check_parameter("alpha", value)


@pytest.mark.parametrize("seed", [None, 0, np.int64(3), np.random.RandomState(0)])
def test_seeds(seed):
    check_parameter("random_state", seed)


@pytest.mark.parametrize("name", named_kernels())
def test_kernels_with_bins(name):
    kernel = named_kernels()[name]()
    if name in KERNELS_WITH_BINS:
        kernel.pitch_measure()
    else:
        with pytest.raises(ValueError):
            kernel.pitch_measure()


CONFLICTS = [
    ({"features": "binning", "solver": "exact"}, "solver"),
    ({"features": "hybrid", "solver": "direct"}, "solver"),
    ({"features": "binning", "alpha": "loo"}, "alpha"),
    ({"solver": "cg", "alpha": "gcv"}, "alpha"),
    ({"features": "hybrid", "kernel": "hat"}, "kernel"),
    ({"features": "binning", "kernel": "hat", "metric": "ard"}, "kernel"),
    ({"features": "binning", "kernel": "cauchy"}, "kernel"),
    ({"features": "hybrid", "metric": "isotropic"}, "metric"),
]


@pytest.mark.parametrize(("options", "at_fault"), CONFLICTS, ids=str)
def test_conflicts_in_python_and_as_options(options, at_fault):
    values = {
        "kernel": "auto",
        "features": "auto",
        "metric": "auto",
        "alpha": "auto",
        "solver": "auto",
        "loss": "auto",
        "uncertainty": False,
    } | options
    found, as_options = (
        conflict(SimpleNamespace(**values)),
        conflict(SimpleNamespace(**values), "--{} {}".format),
    )
    assert at_fault in PARAMETERS
    assert found.parameter == as_options.parameter == at_fault
    assert found.message.startswith(
        tuple(f"{name}={value!r}" for name, value in options.items())
    )
    assert as_options.message.startswith(
        tuple(f"--{name} {value}" for name, value in options.items())
    )
    with pytest.raises(ValueError, match=at_fault):
        KernelMachineRegressor(**options).fit([[0.0], [1.0]], [0.0, 1.0])
