"""What the regressor and the classifier share is documented in the same words."""

import inspect
import re

import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor

ESTIMATORS = [KernelMachineRegressor, KernelMachineClassifier]
OWN_MEANING = {
    "__init__": {"loss"},
    "attributes": {
        "alpha_scores_",
        "feature_weights_",
        "intercept_",
        "loss_",
        "n_steps_",
    },
    "predict": set(),
}


def entries(docstring, section):
    """Texts of the entries of a section of a numpydoc docstring, by their names."""
    found = re.search(
        rf"^{section}\n-+\n(.*?)(?=\n\n\w+\n---|\Z)",
        docstring,
        re.DOTALL | re.MULTILINE,
    )
    named = re.findall(r"^(\S.*?) : (.*(?:\n(?: .*)?)*)", found[1], re.MULTILINE)
    return {
        name.strip(): text.strip() for names, text in named for name in names.split(",")
    }


def compared(kind):
    if kind in ("__init__", "attributes"):
        section = "Parameters" if kind == "__init__" else "Attributes"
        return [entries(inspect.getdoc(estimator), section) for estimator in ESTIMATORS]
    return [
        entries(inspect.getdoc(getattr(estimator, kind)), "Parameters")
        for estimator in ESTIMATORS
    ]


@pytest.mark.parametrize("kind", OWN_MEANING)
def test_shared_names_have_the_same_text(kind):
    first, second = compared(kind)
    shared = first.keys() & second.keys()
    assert shared >= OWN_MEANING[kind]
    assert {name for name in shared if first[name] != second[name]} == OWN_MEANING[kind]


@pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__
)
def test_every_parameter_is_documented_in_its_order_with_its_default(estimator):
    documented, parameters = (
        entries(inspect.getdoc(estimator), "Parameters"),
        inspect.signature(estimator).parameters,
    )
    assert list(documented) == list(parameters)
    for name, text in documented.items():
        value, shown = parameters[name].default, re.search(r"default=(\S+)", text)[1]
        assert shown.strip('"') == str(value) or float(shown) == value


@pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__
)
def test_methods_document_their_parameters(estimator):
    for kind in ("fit", "refit", "predict"):
        method = getattr(estimator, kind)
        assert (
            list(entries(inspect.getdoc(method), "Parameters"))
            == list(inspect.signature(method).parameters)[1:]
        )


@pytest.mark.parametrize(
    "estimator", ESTIMATORS, ids=lambda estimator: estimator.__name__
)
def test_attributes_of_a_fitted_model_are_documented(estimator):
    model = estimator(kernel="gaussian", n_components=8).fit(
        [[0.0], [1.0], [2.0], [3.0]], [0, 1, 1, 0]
    )
    documented = entries(inspect.getdoc(estimator), "Attributes")
    assert {name for name in vars(model) if name.endswith("_")} <= documented.keys()


def test_references_are_the_same():
    first, second = (
        inspect.getdoc(estimator).partition("References\n---")[2]
        for estimator in ESTIMATORS
    )
    assert first.partition("Examples\n---")[0] == second.partition("Examples\n---")[0]
