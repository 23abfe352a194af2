"""Save and load models: one safetensors file with a JSON tree of allowed classes and a
checksum, no pickle.

The format is specified in ``docs/format.md``. A class can be saved by its name in
`CLASSES`, if its ``_state_of_file``, or else its ``__getstate__``, gives a dict of
numbers, strings, lists, tuples, dicts, arrays and objects that can be saved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from bochner.persistence.container import (
    BLANK,
    VERSION,
    ModelFileError,
    Path,
    Unreadable,
    digest,
    errors_of,
    pack,
    read_header,
)
from bochner.persistence.tree import Decoder, encode
from bochner.whole_files import replacing

__all__ = ["ModelFileError", "describe", "load", "save"]

# Names of the classes that files may hold, with their modules
CLASSES = {
    name: f"bochner.{module}"
    for module, names in {
        "estimators.regressor": "KernelMachineRegressor",
        "estimators.classifier": "KernelMachineClassifier",
        "semisupervised.models": "SemiSupervisedClassifier SemiSupervisedRegressor",
        "estimators.posterior": "Posterior",
        "estimators.incremental": "PartialFitState ValidationSample",
        "estimators.extrapolation": "PredictionBounds",
        "estimators.ridge.out_of_sample": "LinearPredictor",
        "estimators.ridge.interval_calibration": "ErrorSize ErrorScale",
        "solvers.conformal": "Scores",
        "solvers.posterior_variance": "LinearPosterior",
        "features.fourier": "FourierFeatures",
        "features.structured": "SignedHadamard",
        "features.anchors": "AnchorFeatures",
        "features.binning": "BinningFeatures",
        "features.concatenate": "ConcatenatedFeatures LinearFeatures",
        "features.metric": "Metric MetricFeatures",
        "features.nystroem": "KernelRows NystroemFeatures",
        "features.sparse_columns": "SparseColumns",
        "unsupervised.cca": "KernelCCA",
        "unsupervised.pca": "KernelPCA PreImages",
        "unsupervised.clustering": "KernelKMeans SpectralClustering",
        "selection.report": "Report Candidate RowsCurve",
        "explanations.importance": "Importance",
        "estimators.class_losses": "Start",
        "solvers.losses": "Huber Quantile Poisson",
        "kernels.radial": "Gaussian PowerExponential RationalQuadratic StudentT Matern",
        "kernels.separable": "Laplacian Cauchy Hat SmoothBins",
        "kernels.spectral": "Gabor Periodic SpectralMixture",
        "kernels.subspaces": "Additive Hamming Subspace",
        "kernels.linear": "Linear",
        "kernels.base": "Sum Product Scaled",
        "unsupervised.novelty_detector": "NoveltyDetector",
        "data.table": "TableEncoder",
        "data.table_statistic": "TableStatistic Summary",
        "data.level_means": "LevelMeans",
        "data.encodings": "CodeColumn NumberColumns TextColumn TimeColumn",
    }.items()
    for name in names.split()
}


def save(
    model: Any,
    path: Path,
    metadata: Mapping[str, str] | None = None,
    *,
    background: bool = True,
) -> None:
    """Save a model to one file, without pickle.

    The file replaces `path` only once it is complete. The same model gives the same
    bytes. A NumPy generator as `random_state` is saved as None, because what was drawn
    with it is saved too. Splits as `cv` are saved as None, because they belong to the
    rows of the fit; a number of folds stays.

    Parameters
    ----------
    model : fitted estimator, feature map, table encoder, or kernel
    path : str or path-like
        By convention the name ends in ``.safetensors``.
    metadata : dict of str to str, optional
        Stored with the model and covered by the checksum; `describe` returns it.
    background : bool, default=True
        Whether the file has the training rows, 100 at most, that
        `KernelMachineRegressor.explain` compares others with if it is given none. False
        for data that must not leave; the kernel machine of few rows keeps all of them.

    Raises
    ------
    NotFittedError
        If `model` is an estimator that is not fitted.
    TypeError
        If its class, or the value of an attribute, cannot be saved; the message names
        the attribute. If `metadata` holds anything but strings.
    ValueError
        If the model contains itself, nests deeper than 64 levels, or holds too much
        text for the header.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bochner.kernels import Gaussian
    >>> from bochner.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "kernel.safetensors"
    ...     save(Gaussian(lengthscale=2.0), path)
    ...     load(path)
    Gaussian(lengthscale=2.0)
    """
    metadata = dict(metadata or {})
    if not all(type(text) is str for item in metadata.items() for text in item):
        raise TypeError("metadata must be a dict of strings to strings.")
    if not background and hasattr(model, "without_background"):
        model = model.without_background()
    with replacing(path) as temporary, open(temporary, "xb") as file:
        for chunk in pack(*encode(model, CLASSES), metadata):
            file.write(chunk)


def load(path: Path) -> Any:
    """Load a model that `save` wrote; no code from the file is executed.

    Raises
    ------
    ModelFileError
        If the file is damaged, not a model, or of an unsupported format version.
    OSError
        If it cannot be opened (FileNotFoundError, IsADirectoryError, PermissionError).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bochner import FourierFeatures, load, save
    >>> features = FourierFeatures(n_components=10, random_state=0).fit([[0.0, 1.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "features.safetensors"
    ...     save(features, path)
    ...     again = load(path)
    >>> bool((again.transform([[1.0, 2.0]]) == features.transform([[1.0, 2.0]])).all())
    True
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load as read_tensors

    with errors_of(path):
        with open(os.fspath(path), "rb") as file:
            header = read_header(file)
            file.seek(0)
            data = file.read(header.size)
        blank = header.raw.replace(header.checksum.encode(), BLANK.encode())
        body = memoryview(data)[len(header.raw) :]
        if (
            not data.startswith(header.raw)
            or header.raw.count(header.checksum.encode()) != 1
        ):
            raise Unreadable("its header is inconsistent")
        if digest([blank, body]) != header.checksum:
            raise Unreadable(
                "its checksum does not match its content: it was changed or damaged"
            )
        try:
            tensors = read_tensors(data)
        except (SafetensorError, ValueError, KeyError) as error:
            raise Unreadable(f"its tensors are invalid ({error})") from None
        return Decoder(tensors, CLASSES).root(header.tree)


def describe(path: Path) -> dict[str, Any]:
    """Summarise a model file from its header, without building the model or verifying
    the checksum.

    Returns
    -------
    dict
        ``format_version``, ``library_version``, ``class``, ``n_tensors``,
        ``tensor_bytes``, ``file_bytes``, ``metadata``, and ``tree``: the nodes of the
        model as the file has them, dicts, lists and scalars of JSON.

    Raises
    ------
    ModelFileError, OSError
        As `load`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from bochner.kernels import Gaussian
    >>> from bochner.persistence import describe, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "kernel.safetensors"
    ...     save(Gaussian(lengthscale=2.0), path, metadata={"made for": "an example"})
    ...     header = describe(path)
    >>> header["tree"]["state"], header["metadata"]
    ({'lengthscale': 2.0}, {'made for': 'an example'})
    """
    with errors_of(path), open(os.fspath(path), "rb") as file:
        header = read_header(file)
    return {
        "format_version": VERSION,
        "library_version": header.library_version,
        "class": header.tree.get("class"),
        "n_tensors": len(header.tensors),
        "tensor_bytes": header.size - len(header.raw),
        "file_bytes": header.size,
        "metadata": header.metadata,
        "tree": header.tree,
    }
