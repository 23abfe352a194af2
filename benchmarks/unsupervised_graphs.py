"""Few labels, and clusters, on the graphs of images: parts of ``python -m benchmarks
unsupervised``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics import normalized_mutual_info_score
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC

from bochner import SemiSupervisedClassifier, SpectralClustering
from runner import SLOW, cost, repeats
from unsupervised_data import few_labels, mnist
from unsupervised_lines import Line, line, mean

SEEDS, DRAWS = 5, 10


def labels(n: int, goal: float, seconds: float | None) -> list[Line]:
    """A hundred labels among n images; what is wrong among the others, and among
    test rows.
    """
    X, y, X_test, y_test = mnist(n)
    SemiSupervisedClassifier(random_state=0).fit(X[:1000], few_labels(y[:1000], 2, 0))
    own, new, costs = [], [], []
    theirs: dict[str, list[float]] = {name: [] for name in spreaders(n)}
    for seed in range(repeats(DRAWS)):
        marked = few_labels(y, 10, seed)
        rest = marked < 0
        model, *spent = cost(
            partial(SemiSupervisedClassifier(random_state=seed).fit, X, marked)
        )
        costs.append(spent)
        own.append(wrong(model.transduction_[rest], y[rest]))
        new.append(wrong(model.predict(X_test), y_test))
        for name, (peer, draws) in spreaders(n).items():
            if seed < draws or SLOW:
                theirs[name].append(wrong(spread(peer, X / 255, marked), y[rest]))
    took = float(np.median(costs, axis=0)[0])
    return [
        line(
            f"MNIST, {len(X):,} rows, 100 labels: % wrong of the others",
            f"{mean(own)} (test rows {mean(new)})",
            costs,
            reference="; ".join(
                f"{name}: {mean(found)}" for name, found in theirs.items() if found
            ),
            goal=f"<= {goal:g}" + (f", {seconds:g} CPU s" if seconds else ""),
            reached=np.mean(own) <= goal and took <= (seconds or np.inf),
            earlier="SVC 20.8"
            if seconds
            else "LabelSpreading, Gaussian 12.0; self-training SVC 18.3 in 476 CPU s",
        )
    ]


def spreaders(n: int) -> dict[str, tuple[Any, int]]:
    """Peers, and for how many draws they are measured: those of all pairs of rows
    where these are few.
    """
    peers: dict[str, tuple[Any, int]] = {"SVC of the labels": (SVC(C=10), DRAWS)}
    if n <= 10_000:
        peers["LabelSpreading, 7 neighbours"] = (
            LabelSpreading("knn", n_neighbors=7, alpha=0.9),
            DRAWS,
        )
        peers["LabelSpreading, Gaussian of the best gamma"] = (
            LabelSpreading("rbf", gamma=0.4, alpha=0.9),
            1,
        )
        peers["self-training SVC"] = (
            SelfTrainingClassifier(SVC(C=10, probability=True)),
            0,
        )
    return peers


def spread(peer: Any, X: NDArray, marked: NDArray) -> NDArray:
    """What a peer says of rows without labels."""
    rest = marked < 0
    if isinstance(peer, SVC):
        return peer.fit(X[~rest], marked[~rest]).predict(X[rest])
    peer.fit(X, marked)
    return peer.transduction_[rest]


def wrong(predicted: NDArray, truth: NDArray) -> float:
    """Percent."""
    return 100 * float(np.mean(predicted != truth))


def clusters(
    name: str, goal: float, seconds: float | None, peer: Any, earlier: str
) -> list[Line]:
    """Agreement of clusters with classes, without arguments but their number."""
    X, y = (
        load_digits(return_X_y=True)
        if name == "digits"
        else mnist(60_000 if "60,000" in name else 5000)[:2]
    )
    SpectralClustering(10, random_state=0).fit(X[:1000])
    own, costs, theirs, their_costs = [], [], [], []
    for seed in range(repeats(SEEDS)):
        model, *spent = cost(partial(SpectralClustering(10, random_state=seed).fit, X))
        own.append(normalized_mutual_info_score(y, model.labels_))
        costs.append(spent)
        if not isinstance(peer, KMeans) or not seed:
            other, *spent = cost(partial(peer.set_params(random_state=seed).fit, X))
            theirs.append(normalized_mutual_info_score(y, other.labels_))
            their_costs.append(spent)
    took, their = (float(np.median(both, axis=0)[0]) for both in (costs, their_costs))
    return [
        line(
            f"spectral clustering, {name}: NMI",
            mean(own, 3),
            costs,
            reference=f"{type(peer).__name__}: {mean(theirs, 3)}, {their:.2g} CPU s",
            goal=f">= {goal}" + (f", {seconds:g} CPU s" if seconds else ""),
            reached=np.mean(own) >= goal and took <= (seconds or np.inf),
            earlier=earlier,
        )
    ]
