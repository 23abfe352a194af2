"""Dates and numbers in text, as people write them, beside what they mean."""

import warnings
from datetime import date, datetime, time, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from bochner import KernelMachineRegressor, TableEncoder, load, open_source, save
from bochner.data.written_values import read_written, written_kind

DAYS = [date(2017, 12, 1), date(2017, 12, 31), date(2018, 1, 5), date(2018, 2, 28)]
MOMENTS = [datetime(2015, 8, 1, 1, 19, 15), datetime(2015, 8, 31, 13, 5)]


def kind_of(values, **options):
    counts = {value: float(values.count(value)) for value in dict.fromkeys(values)}
    return written_kind(counts, "column", **options)


def moments(values, kind):
    seconds = read_written(values, kind)
    return [datetime(1970, 1, 1) + timedelta(seconds=s) for s in seconds.tolist()]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["01/12/2017", "31/12/2017", "5/1/2018", "28/2/2018"], "day/month/year"),
        (["1.12.2017", "31.12.2017", "5.1.2018", "28.02.2018"], "day/month/year"),
        (["12/1/2017", "12/31/2017", "1/5/2018", "2/28/2018"], "month/day/year"),
        (["12/1/17", "12/31/17", "1/5/18", "2/28/18"], "month/day/year"),
        (["1-Dec-17", "31-Dec-17", "5-Jan-18", "28-Feb-18"], "day/month/year"),
        (
            ["1 December 2017", "31 DEC 2017", "5 jan 2018", "28 Feb. 2018"],
            "day/month/year",
        ),
        (
            ["Dec 1, 2017", "Dec 31, 2017", "Jan 5, 2018", "February 28, 2018"],
            "month/day/year",
        ),
        (["2017/12/01", "2017/12/31", "2018/1/5", "2018/2/28"], "year/month/day"),
        (["01.12.17", "31.12.17", "05.01.18", "28.02.18"], "day/month/year"),
        (
            ["Fri 1 Dec 2017", "Sunday, 31 Dec 2017", "Fri 5/1/2018", "Wed. 28.2.2018"],
            "day/month/year",
        ),
    ],
)
def test_dates(values, kind):
    written = kind_of(values)
    assert written.kind == f"date written {kind}"
    assert written.note == f"Column 'column': dates read as {kind}."
    assert [one.date() for one in moments(values, written.kind)] == DAYS


def test_months_and_times():
    written = kind_of(["December-2017", "May-2018"])
    assert written.kind == "date written month/year"
    found = moments(["December-2017", "May-2018"], written.kind)
    assert found == [datetime(2017, 12, 1), datetime(2018, 5, 1)]
    values = ["8/1/2015 01:19:15", "8/31/2015 1:05 PM"]
    written = kind_of(values)
    assert written.kind == "datetime written month/day/year"
    assert moments(values, written.kind) == MOMENTS
    written = kind_of(["12:42 PM", "1:05 am", "12:00 AM", "?"])
    assert written.kind == "time written hour:minute"
    seconds = read_written(["12:42 PM", "1:05 am", "12:00 AM"], written.kind)
    np.testing.assert_array_equal(seconds, [45720, 3900, 0])


def test_days_or_months_first():
    """Rows that are sorted tell the order, or the user does; else nothing is done."""
    year = [date(2021, 1, 1) + timedelta(days=9 * k) for k in range(36)]
    early = [day for day in year if day.day <= 12]
    written = [f"{day.day}/{day.month}/{day.year}" for day in early]
    assert kind_of(written).kind == "date written day/month/year"
    mixed = np.random.default_rng(0).permutation(written).tolist()
    doubtful = kind_of(mixed)
    assert doubtful.kind == "text"
    assert "day_first=True or False (--dates day-first" in doubtful.note
    assert kind_of(mixed, day_first=True).kind == "date written day/month/year"
    assert kind_of(mixed, day_first=False).kind == "date written month/day/year"
    # Where one order alone fits, it holds whatever was said
    certain = ["31/12/2017", "1/12/2017"]
    assert kind_of(certain, day_first=False).kind == "date written day/month/year"


@pytest.mark.parametrize(
    ("values", "kind", "numbers"),
    [
        (["1248 CC", "796 CC"], "1.5 CC", [1248, 796]),
        (["23.4 kmpl", "19 kmpl"], "1.5 kmpl", [23.4, 19]),
        (["1.37kg", "2kg"], "1.5 kg", [1.37, 2]),
        (["5%", "12.5 %"], "1.5 %", [5, 12.5]),
        (["$2.39", "$1,299.00", "-$3"], "1.5 $", [2.39, 1299, -3]),
        (["3,5 \u20ac", "1.299,00 \u20ac"], "1,5 \u20ac", [3.5, 1299]),
        (["(3.2)", "4", "5.5"], "1.5", [-3.2, 4, 5.5]),
        (["\u22123.2", "4", "5e-3"], "1.5", [-3.2, 4, 0.005]),
        (["121.50-", "1,300.00", "3-"], "1.5", [-121.5, 1300, -3]),
        (["EUR 3,2-", "EUR 4,1", "EUR 5-"], "1,5 EUR", [-3.2, 4.1, -5]),
        (["1,200", "3,400,000", "12"], "1.5", [1200, 3400000, 12]),
        (["1 200", "3 400 000", "12"], "1.5", [1200, 3400000, 12]),
        (["USD 5", "USD 6.5"], "1.5 USD", [5, 6.5]),
        (["1.5", "?", "2"], "1.5", [1.5, np.nan, 2]),
        (["1.5", "n/a", "***", "2"], "1.5", [1.5, np.nan, np.nan, 2]),
    ],
)
def test_numbers(values, kind, numbers):
    written = kind_of(values)
    assert written.kind == f"number written {kind}"
    np.testing.assert_array_equal(read_written(values, written.kind), numbers)


def test_years_of_two_digits_in_front():
    doubtful = kind_of(["17-01-25", "17-03-09", "18-01-28"])
    assert doubtful.kind == "text"
    assert doubtful.note.endswith("years of four digits make them dates.")
    months = [f"01-Jan-{year}" for year in range(15, 25)]
    assert kind_of(months).kind == "date written day/month/year"
    firsts = [f"01/{month:02}/{year}" for year in (15, 16) for month in range(1, 13)]
    assert kind_of(firsts, day_first=True).kind == "date written day/month/year"


def test_what_is_beyond_numbers_is_missing():
    written = kind_of(["1e400 kg", "-1e400 kg", *["2 kg"] * 30])
    assert written.others == ["1e400 kg", "-1e400 kg"]
    np.testing.assert_array_equal(
        read_written(["1e400 kg", "2 kg"], written.kind), [np.nan, 2]
    )


def test_says_how_a_doubtful_mark_was_read():
    assert kind_of(["1.234 \u20ac", "12.000 \u20ac"]).note.endswith(
        "of unit \u20ac, '1.234 \u20ac' as 1.234."
    )


def test_stray_words_are_missing_and_counted():
    prices = [f"1,{k:03}" for k in range(99)]
    written = kind_of([*prices, "Free"])
    assert written.kind == "number written 1.5"
    assert written.others == ["Free"]
    assert written.note.endswith(
        "1 of its values are none and count as missing: 'Free'."
    )
    half = kind_of([*prices[:8], "Free", "Gift"])
    assert half.kind == "text"


@pytest.mark.parametrize(
    "values",
    [
        ["007", "018", "?"],  # leading zeros
        ["2A", "3A", "14A"],
        ["2A", "3B", "14C"],
        ["555-1234", "555-2345"],
        ["+49 30 123456", "+49 30 99999"],
        ["1", "2", "3"],  # digits that somebody has made text
        ["1.0", "2.0", "3.0", ""],  # as a frame of numbers with gaps makes them text
        ["1.2.10", "1.2.11"],
        ["1.10.10", "10.2.11"],
        ["5-", "10-", "25-"],  # and more
        ["3.1", "3.9", "3.10"],  # versions
        ["12 Main St", "3 High Rd", "7 Mill Ln"],
        ["1/2", "3/4"],
        ["a", "b"],
        ["?", "-"],
        ["31/02/2017", "1/12/2017"],
        ["13:75", "12:00"],
        ["1:30", "2:45", "3:10"],  # laps, perhaps
        ["(1)", "(2)", "(3)"],
        ["9007199254740993", "9007199254740992", "?"],
        ["90210", "10115", ""],
        ["12 Main St", "14 Main St"],
        ["BMW 320", "BMW 318"],
        ["1234", "12ab", "9999"],
        ["1" + " " * 5000 + "((", "2"],
        ["1" * 20000, "2"],
    ],
)
def test_what_stays_text(values):
    written = kind_of(values)
    assert written.kind == "text"
    assert not written.others
    assert not written.note


def test_fractions_are_numbers_also_without_words():
    """Of databases and of frames whose gaps are empty texts."""
    assert kind_of(["1.5", "-2.25", "3e-3"]).kind == "number written 1.5"
    gaps = kind_of(["1.5", "2", "", " "])
    assert gaps.kind == "number written 1.5"
    assert gaps.others == ["", " "]
    assert "2 of its values are none" in gaps.note


def test_whole_numbers_as_text_are_left_out_with_a_cure():
    rng = np.random.default_rng(0)
    seconds = rng.integers(1000, 9999, 600)
    X = pd.DataFrame({"seconds": seconds.astype(str), "z": rng.normal(size=600)})
    y = np.sin(seconds / 1500) + X["z"]
    with pytest.warns(UserWarning, match="'seconds': left out.*make them numbers"):
        KernelMachineRegressor(random_state=0).fit(X, y)
    X["seconds"] = seconds
    model = KernelMachineRegressor(random_state=0).fit(X[:450], y[:450])
    assert model.score(X[450:], y[450:]) > 0.95


def people(n=300):
    """A table as people keep it, the same in plain types, and a target."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 720, n), "D")
    weight = np.round(rng.uniform(1, 9, n), 2)
    price = np.round(rng.uniform(100, 9000, n), 2)
    price[:40] = np.nan
    kind = rng.choice(["u", "v"], n)
    kept = pd.DataFrame(
        {
            "day": days.strftime("%d/%m/%Y"),
            "weight": [f"{one:.2f} kg" for one in weight],
            "price": ["?" if one != one else f"${one:,.2f}" for one in price],
            "kind": kind,
        }
    )
    plain = pd.DataFrame({"day": days, "weight": weight, "price": price, "kind": kind})
    plain["day"] = plain["day"].dt.date
    return kept, plain, weight + days.dayofyear.to_numpy() / 100


@pytest.mark.filterwarnings("ignore:Column '(day|weight|price)'")
@pytest.mark.filterwarnings("ignore:DatetimeIndex.dayofyear")
class TestTables:
    def test_as_if_it_had_been_plain(self):
        kept, plain, _ = people()
        encoder = TableEncoder().fit(kept)
        expected = TableEncoder().fit(plain)
        assert encoder.written == {
            "day": "date written day/month/year",
            "weight": "number written 1.5 kg",
            "price": "number written 1.5 $",
        }
        names = expected.get_feature_names_out().tolist()
        assert encoder.get_feature_names_out().tolist() == names
        np.testing.assert_allclose(
            encoder.transform(kept), expected.transform(plain), atol=1e-6
        )
        # Later rows may have plain types, and ISO dates
        np.testing.assert_array_equal(encoder.transform(plain), encoder.transform(kept))
        iso = kept.assign(day=[str(day) for day in plain["day"]])
        np.testing.assert_array_equal(encoder.transform(iso), encoder.transform(kept))
        one = encoder.transform(kept[:1])
        np.testing.assert_array_equal(one, encoder.transform(kept)[:1])

    def test_says_what_it_did(self):
        kept, _, _ = people()
        with pytest.warns(UserWarning, match="Column") as said:
            TableEncoder().fit(kept)
        assert [str(one.message) for one in said] == [
            "Column 'day': dates read as day/month/year.",
            "Column 'weight': read as numbers of unit kg.",
            "Column 'price': read as numbers of unit $; 40 of its values are none and "
            "count as missing: '?'.",
        ]

    def test_switched_off(self):
        kept, _, _ = people()
        for text in ("all", ["day", "weight", "price"], [0, 1, 2]):
            assert not TableEncoder(text_features=text).fit(kept).written
        with pytest.raises(ValueError, match="no column 'colour'"):
            TableEncoder(text_features="colour").fit(kept)
        assert not TableEncoder().fit(kept.astype("category")).written

    def test_another_unit_is_refused(self):
        kept, _, _ = people()
        encoder = TableEncoder().fit(kept)
        pounds = kept.assign(weight=kept["weight"].str.replace("kg", "lb"))
        with pytest.raises(ValueError, match=r"'weight' holds '.* lb' and the like"):
            encoder.transform(pounds)

    def test_one_odd_value_counts_as_missing(self):
        """However many rows come with it; only a column that is written otherwise is
        refused.
        """
        kept, _, _ = people()
        encoder = TableEncoder().fit(kept)
        odd = kept[:1].assign(weight="heavy", day="soon")
        with pytest.warns(UserWarning, match="have missing values"):
            alone = encoder.transform(odd)
        with pytest.warns(UserWarning, match="have missing values"):
            beside = encoder.transform(pd.concat([odd, kept[1:]]))
        np.testing.assert_array_equal(alone[0], beside[0])
        later = TableEncoder()
        later.partial_fit(pd.DataFrame({"day": [f"{k}/1/2010" for k in range(1, 29)]}))
        other = pd.DataFrame({"day": [f"1/{k}/2011" for k in range(1, 29)]})
        with pytest.raises(ValueError, match="the fit saw dates written as day/month"):
            later.partial_fit(other)

    def test_dates_with_times_are_days(self):
        days = pd.DataFrame({"a": ["31/12/2010", "1/1/2011", "5/1/2011"]})
        with pytest.warns(UserWarning, match="dates read as"):
            encoder = TableEncoder().fit(days)
        noon = days.assign(a=days["a"] + " 12:00")
        np.testing.assert_array_equal(encoder.transform(noon), encoder.transform(days))

    def test_parts_and_streams(self, tmp_path):
        """All rows decide, whatever part they come in."""
        kept, _, y = people()
        whole = TableEncoder().fit(kept)
        encoder = TableEncoder().fit(kept[:200])
        encoder.partial_fit(kept[200:])
        assert encoder.written == whole.written
        table = pa.Table.from_pandas(kept.assign(y=y))
        parquet.write_table(table, tmp_path / "t.parquet")
        model = KernelMachineRegressor(random_state=0, alpha=0.1, kernel="gaussian")
        streamed = model.fit(open_source(tmp_path / "t.parquet"), "y")
        assert streamed.encoder_.written == whole.written

    @pytest.mark.slow
    def test_machines(self, tmp_path):
        kept, plain, y = people()
        model = KernelMachineRegressor(random_state=0).fit(kept, y)
        assert model.score(kept, y) > 0.95
        assert "Read from text: day (date written day/month/year)" in " ".join(
            str(model.report_).split()
        )
        save(model, tmp_path / "model.safetensors")
        loaded = load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(loaded.predict(kept), model.predict(kept))
        np.testing.assert_array_equal(loaded.predict(plain), model.predict(kept))
        off = KernelMachineRegressor(random_state=0, text_features="all")
        assert not off.fit(kept, y).encoder_.written


def test_numbers_that_stand_for_missing_ones_are_told():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"gas": rng.uniform(0, 12, 500), "age": rng.integers(18, 70, 500)})
    X.loc[::6, "gas"] = -200.0
    X.loc[::50, "age"] = 999
    encoder = TableEncoder().fit(X)
    with pytest.warns(UserWarning, match="Column") as said:
        encoder.without_outliers(X, None)
    assert [str(one.message) for one in said] == [
        "Column 'gas': -200 in 17 % of the rows stands apart from all other values; if "
        "it stands for a missing value, make it NaN.",
        "Column 'age': 999 in 2 % of the rows stands apart from all other values; if it "
        "stands for a missing value, make it NaN.",
    ]


def test_groups_of_three_digits_beside_whole_numbers_of_three():
    written = kind_of(["1.628", "817", "335", "2.013"])
    assert written.kind == "number written 1,5"
    assert "'1.628' as 1628" in written.note
    assert read_written(["1.628", "817"], written.kind).tolist() == [1628, 817]
    # Quantities with three decimals
    assert kind_of(["1.250 kg", "2 kg", "3.500 kg"]).kind == "number written 1.5 kg"


def test_thousands_are_no_unit_that_may_be_missing():
    assert kind_of(["950", "1.2k", "7.1k"]).kind == "text"
    assert kind_of(["1.2k", "7.1k"]).kind == "number written 1.5 k"


def test_named_months_in_another_order():
    """They can be read in one way only, whatever the order of the fit."""
    kind = "date written month/day/year"
    assert moments(["05-Oct-2020", "Oct 5, 2020"], kind) == [datetime(2020, 10, 5)] * 2
    assert np.isnan(read_written(["25/12/2020"], kind)).all()


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "+02:00"])
def test_later_moments_of_text_in_a_zone(zone):
    moments = pa.array(MOMENTS * 10, pa.timestamp("us", zone))
    encoder = TableEncoder().fit(pa.table({"t": moments}))
    texts = ["2015-08-01T01:19:15Z", "2015-08-31 15:05:00+02:00"]
    as_moments = pa.array(MOMENTS, pa.timestamp("us", "UTC"))
    expected = encoder.transform(pa.table({"t": as_moments}))
    np.testing.assert_allclose(encoder.transform(pa.table({"t": texts})), expected)
    with (
        pytest.warns(UserWarning, match="'t' holds 'soon' where the fit saw datetime"),
        pytest.warns(UserWarning, match="has missing values"),
    ):
        encoder.transform(pa.table({"t": [*texts, "soon"]}))


def test_later_times_of_day_of_text():
    times = pa.array([time(9, 30), time(15, 30)])
    encoder = TableEncoder().fit(pa.table({"t": times}))
    texts = pa.table({"t": ["9:30 am", "15:30"]})
    expected = encoder.transform(pa.table({"t": times}))
    np.testing.assert_allclose(encoder.transform(texts), expected)


def test_moments_in_a_zone_where_the_fit_saw_dates_of_text():
    with pytest.warns(UserWarning, match="dates read as month/day/year"):
        encoder = TableEncoder().fit(pa.table({"t": ["03/01/2020", "03/31/2020"] * 5}))
    moments = pa.array(MOMENTS, pa.timestamp("us", "UTC"))
    with pytest.raises(ValueError, match=r"fit saw date values; .*tz_localize\(None\)"):
        encoder.transform(pa.table({"t": moments}))


def test_few_later_values_that_cannot_be_read_are_told():
    weights = [f"{k}.5 kg" for k in range(1, 40)]
    with pytest.warns(UserWarning, match="read as numbers of unit kg; 1 of its"):
        encoder = TableEncoder().fit(pa.table({"w": [*weights, "heavy"]}))
    with pytest.warns(
        UserWarning, match="'w' holds '162 lb' where the fit saw numbers"
    ):
        encoder.transform(pa.table({"w": ["162 lb", "23 kg", "24 kg"]}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform(pa.table({"w": [*weights, "heavy"]}))  # as in the fit
