"""Moments with a time zone: what clocks show in the zone of the fit, in every way
that a table comes in.
"""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from bochner import KernelMachineRegressor, TableEncoder, load, save

MOMENTS = pd.date_range(
    "2024-03-01", periods=200, freq="7h", tz="UTC"
)  # in which New York changes its clocks
ZONES = ["UTC", "Asia/Tokyo", "America/New_York", "Etc/GMT+5", "+09:00", "-03:30"]


def hours(zone):
    """Hours of the day by the standard library."""
    sign = -1 if zone[0] == "-" else 1
    offset = (
        dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:]))
        if zone[0] in "+-"
        else None
    )
    own = ZoneInfo(zone) if offset is None else dt.timezone(sign * offset)
    return np.array(
        [
            (t := moment.astimezone(own)).hour + t.minute / 60
            for moment in MOMENTS.to_pydatetime()
        ]
    )


def frame(zone):
    return pd.DataFrame({"t": MOMENTS.tz_convert(zone)})


@pytest.mark.parametrize("zone", ZONES)
def test_the_hour_is_that_of_the_zone(zone):
    own = frame(zone)
    encoder = TableEncoder().fit(own)
    Z, names = encoder.transform(own), list(encoder.get_feature_names_out())
    circle = Z[:, [names.index("t_day_cos"), names.index("t_day_sin")]]
    angle = 2 * np.pi * hours(zone) / 24
    np.testing.assert_allclose(
        circle, np.column_stack([np.cos(angle), np.sin(angle)]), atol=1e-6
    )
    others = [frame(other) for other in ZONES]
    others += [
        pl.from_pandas(frame("Asia/Tokyo")),
        pa.Table.from_pandas(frame("America/New_York")),
    ]
    others += [pd.DataFrame({"t": own["t"].astype(object)})]
    others += (
        [pl.from_pandas(own.astype({"t": f"datetime64[us, {zone}]"}))]
        if "/" in zone
        else []
    )
    for given in others:
        np.testing.assert_array_equal(encoder.transform(given), Z)


def test_files_and_saved_models(tmp_path):
    own, target = (
        frame("America/New_York"),
        np.sin(2 * np.pi * hours("America/New_York") / 24),
    )
    model = KernelMachineRegressor(
        features="fourier", n_components=20, alpha=0.1, random_state=0
    ).fit(own, target)
    expected = model.predict(own)
    save(model, tmp_path / "model")
    frame("UTC").to_csv(tmp_path / "rows.csv", index=False)
    frame("Asia/Tokyo").to_parquet(tmp_path / "rows.parquet")
    frame("+09:00").to_feather(tmp_path / "rows.feather")
    for one in (model, load(tmp_path / "model")):
        for given in (
            frame("UTC"),
            *(tmp_path / f"rows.{kind}" for kind in ("csv", "parquet", "feather")),
        ):
            np.testing.assert_allclose(one.predict(given), expected, rtol=1e-6)
        np.testing.assert_allclose(
            one.predict(frame("UTC")[:1]), expected[:1], rtol=1e-6
        )


def test_rows_that_are_added_later():
    parts = (
        TableEncoder().fit(frame("Asia/Tokyo")[:100]).partial_fit(frame("UTC")[100:])
    )
    whole = TableEncoder().fit(frame("Asia/Tokyo"))
    np.testing.assert_allclose(
        parts.transform(frame("+09:00")), whole.transform(frame("UTC")), atol=1e-6
    )


@pytest.mark.parametrize(
    ("fitted", "given", "message"),
    [
        (
            "Asia/Tokyo",
            None,
            r"'t' holds datetime values .* saw datetime Asia/Tokyo values; "
            r".*tz_localize\('Asia/Tokyo'\)",
        ),
        (
            None,
            "Asia/Tokyo",
            r"holds datetime Asia/Tokyo values where the fit saw datetime values; "
            r".*tz_localize\(None\)",
        ),
    ],
)
def test_with_a_zone_and_without(fitted, given, message):
    fitted, given = (
        frame(zone) if zone else pd.DataFrame({"t": MOMENTS.tz_localize(None)})
        for zone in (fitted, given)
    )
    encoder = TableEncoder().fit(fitted)
    for rows in (given, given[:1], pl.from_pandas(given), pa.Table.from_pandas(given)):
        for method in (encoder.transform, encoder.partial_fit):
            with pytest.raises(ValueError, match=message):
                method(rows)


def test_days_have_no_zone():
    days = pd.DataFrame({"t": MOMENTS.date})
    for fitted, given in ((days, frame("UTC")), (frame("UTC"), days)):
        with pytest.raises(
            ValueError, match=r"'t' holds date.* values where the fit saw date"
        ):
            TableEncoder().fit(fitted).transform(given)


def test_objects_with_a_zone_and_without():
    values = pd.Series(
        [MOMENTS[0].to_pydatetime(), dt.datetime(2024, 1, 1)], dtype=object
    )
    for given in (values, values[::-1]):
        with pytest.raises(
            ValueError,
            match="'t' holds times with and without a time zone; give all of them one",
        ):
            TableEncoder().fit(pd.DataFrame({"t": given}))


def test_a_zone_that_nobody_knows():
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("s", "Nowhere/At all"))})
    with pytest.raises(
        ValueError,
        match=r"column 't': .*Nowhere.*; convert the times to a zone that is known",
    ):
        TableEncoder().fit(table)
