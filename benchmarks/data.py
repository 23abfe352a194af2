"""Fetch the real tables: ``python -m benchmarks data FOLDER [--only NAME ...]``, then
set BOCHNER_DATA to the folder.

They come from UCI, StatLib, OpenML, LIBSVM and PMLB, by scikit-learn's fetchers where
it has them, and are written as Parquet files with the columns `target` and, where there
is an official one, `split`. Downloads stay in scikit-learn's data folder. Each table is
compared with the one that the figures of docs/benchmarks are of, by a checksum of its
values. Tables that are there already are compared only.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary"
PMLB = "https://github.com/EpistasisLab/pmlb/raw/master/datasets"
CENSUS = (
    "age workclass fnlwgt education education_num marital_status occupation "
    "relationship race sex capital_gain "
)
CENSUS += "capital_loss hours_per_week native_country target"
HOUSES = (
    "longitude latitude housingMedianAge totalRooms totalBedrooms population "
    "households medianIncome target"
)
CHECKSUMS = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
    "cal_housing.tgz": "aaa5c9a6afe2225cc2aed2723682ae403280c4a3695a2ddda4ffb5d8215ea681",
}
DIGESTS = {
    "adult": "2a0bebffbc6eb9bbb38753b04869fe13767390ffdc23de3415f06cbe9bff2343",
    "adult_a9a": "88a5d40fa01da975ef9a9efd87636267bed239c579de8671d8db31281306fcb6",
    "california_housing": "6c3641d676bd8239043d8dabfc2c3981d650a8e4cf894456be6a0fb4c21726f5",
    "connect4": "f1ca993bf81e29ef029e54888f7a0104ea421bd150bb05ffb173f5b3f7b50801",
    "covtype": "32ec1a8e18bbd2f5cd875443b80e00ef627ea99360d4880895d4c6f86cc50e2c",
    "cpu_act": "e59c54945197a0de1872217c91491c4b39f5ecf68783f449b815562ca6e487ca",
    "fars": "6a7692c87d7735b4a736b88b88c62a5510195c8db17587d0a3ef8e99637b466e",
    "house_16H": "66e2131c29dbca3d618d8f427149da23fa8da385a14a8edac542edcbd3312310",
    "kddcup99": "e9542ad59a6ae35477cd9366462c7ff32f14bc324567d7dd846da2733ff93a6f",
    "mnist": "ea4bd45e53ba8ca5daf4063ddd2c981cef68c694cf529e9b78d4babc78c49848",
}


def both(train: pd.DataFrame, test: pd.DataFrame) -> pd.DataFrame:
    """Training and test rows, with a column that tells which they are."""
    parts = [
        part.assign(split=name) for part, name in ((train, "train"), (test, "test"))
    ]
    return pd.concat(parts, ignore_index=True)


def fetched(url: str, name: str = "") -> Path:
    """A file of the web, and its checksum compared where one is published."""
    name = name or url.rpartition("/")[2]
    return Path(
        datasets.fetch_file(url, local_filename=name, sha256=CHECKSUMS.get(name))
    )


def census(path: Path, skipped: int = 0) -> pd.DataFrame:
    """Rows of the files of Adult, whose test labels end in a dot."""
    rows = pd.read_csv(
        path,
        names=CENSUS.split(),
        skiprows=skipped,
        skipinitialspace=True,
        keep_default_na=False,
    )
    return rows.assign(target=rows["target"].str.rstrip("."))


def libsvm(path: Path, n_columns: int) -> pd.DataFrame:
    """Rows of a file of LIBSVM, dense."""
    X, y = datasets.load_svmlight_file(str(path), n_features=n_columns)
    return pd.DataFrame(
        X.toarray(), columns=[f"x{j + 1}" for j in range(n_columns)]
    ).assign(target=y)


def california_housing() -> pd.DataFrame:
    """The eight columns of Pace and Barry, where scikit-learn has means a household."""
    path = fetched("https://ndownloader.figshare.com/files/5976036", "cal_housing.tgz")
    with tarfile.open(path) as archive:
        file = archive.extractfile("CaliforniaHousing/cal_housing.data")
        assert file is not None
        return pd.read_csv(file, names=HOUSES.split())


def kddcup99() -> pd.DataFrame:
    """Ten percent of the training rows, and the test rows with corrected labels."""
    train = datasets.fetch_kddcup99(as_frame=True).frame.rename(
        columns={"labels": "target"}
    )
    train = train.map(
        lambda value: value.decode() if isinstance(value, bytes) else value
    )
    test = pd.read_csv(
        fetched("http://kdd.ics.uci.edu/databases/kddcup99/corrected.gz"),
        names=list(train),
    )
    rows = both(train, test)
    return rows.assign(target=rows["target"].str.rstrip("."))


def openml(name: str) -> pd.DataFrame:
    """The first version of a table of OpenML."""
    X, y = datasets.fetch_openml(name, version=1, as_frame=True, return_X_y=True)
    return X.assign(target=y)


def mnist() -> pd.DataFrame:
    """Digits of OpenML, whose first 60,000 rows are those of the training files."""
    rows = openml("mnist_784")
    return both(rows[:60_000], rows[60_000:])


SOURCES: dict[str, Callable[[], pd.DataFrame]] = {
    "adult": lambda: both(
        census(fetched(f"{UCI}/adult/adult.data")),
        census(fetched(f"{UCI}/adult/adult.test"), 1),
    ),
    "adult_a9a": lambda: both(
        libsvm(fetched(f"{LIBSVM}/a9a"), 123), libsvm(fetched(f"{LIBSVM}/a9a.t"), 123)
    ),
    "california_housing": california_housing,
    "connect4": lambda: pd.read_csv(
        fetched(f"{PMLB}/connect_4/connect_4.tsv.gz"), sep="\t"
    ),
    "covtype": lambda: datasets.fetch_covtype(as_frame=True).frame.rename(
        columns={"Cover_Type": "target"}
    ),
    "cpu_act": lambda: openml("cpu_act"),
    "fars": lambda: pd.read_csv(fetched(f"{PMLB}/fars/fars.tsv.gz"), sep="\t"),
    "house_16H": lambda: openml("house_16H"),
    "kddcup99": kddcup99,
    "mnist": mnist,
}


def numeric(column: pd.Series) -> pd.Series:
    """A column as numbers where all its values are, also as text or objects; else as
    text.
    """
    try:
        return pd.to_numeric(
            column.astype(object) if column.dtype == "category" else column
        )
    except (ValueError, TypeError):
        return column.astype(str)


def digest(rows: pd.DataFrame) -> str:
    """Checksum of the values of a table in the order of its rows, whatever the
    columns are called and their order.
    """
    parts = []
    for _, column in rows.items():
        own = numeric(column)
        text = not pd.api.types.is_numeric_dtype(own)
        data = (
            "\n".join(own).encode()
            if text
            else (own.to_numpy(np.float32) + np.float32(0)).astype("<f4").tobytes()
        )
        parts.append(hashlib.sha256(data).hexdigest())
    return hashlib.sha256("".join(sorted(parts)).encode()).hexdigest()


def made(name: str, folder: Path) -> str:
    """Make a table where it is not there yet; whether it is the one that the figures
    are of.
    """
    path = folder / f"{name}.parquet"
    if not path.exists():
        rows = SOURCES[name]().apply(numeric)
        rows.to_parquet(path.with_suffix(".partial"), compression="zstd", index=False)
        path.with_suffix(".partial").replace(path)
    rows = pd.read_parquet(path)
    size = f"{len(rows):,} rows, {rows.shape[1]:,} columns"
    if digest(rows) == DIGESTS[name]:
        return f"{size}, as in docs/benchmarks"
    return (
        f"{size}; values or their order differ from those of docs/benchmarks, and "
        "so may the errors of random splits"
    )


def main() -> int:
    """Make the tables, and go on where one cannot be had."""
    about = argparse.ArgumentParser(
        prog="python -m benchmarks data", description=__doc__
    )
    about.add_argument("folder", type=Path)
    about.add_argument(
        "--only",
        nargs="+",
        choices=SOURCES,
        default=list(SOURCES),
        metavar="NAME",
        help=", ".join(SOURCES),
    )
    given, failed = about.parse_args(), 0
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        try:
            print(f"{name}: {made(name, given.folder)}", flush=True)
        except (OSError, ValueError, KeyError, tarfile.TarError) as reason:
            failed += 1
            print(
                f"{name}: not made. {type(reason).__name__}: {reason}",
                file=sys.stderr,
                flush=True,
            )
    print(f"export BOCHNER_DATA={given.folder.resolve()}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
