"""The builder of HTML: every text is escaped."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bochner.markup import (
    NAME_WIDTH,
    Markup,
    cut,
    cut_all,
    joined,
    named_shares,
    number,
    percent,
    signed,
    table,
    tag,
    text,
)


class Read(HTMLParser):
    """What a browser would see."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(source)
        self.close()

    def handle_starttag(self, name, attributes):
        self.tags.append((name, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


@given(st.text(), st.text())
def test_texts_and_attributes_stay_texts_and_attributes(content, value):
    read = Read(tag("p", content, title=value))
    assert [name for name, _ in read.tags] == ["p"]
    assert set(read.tags[0][1]) == {"title"}
    assert "".join(read.texts) == "".join(Read(text(content)).texts)


def test_escapes_what_is_no_markup():
    assert tag("b", "<i>", Markup("<i></i>"), 3) == "<b>&lt;i&gt;<i></i>3</b>"
    assert tag("a", "x", href='"><script>') == '<a href="&#34;&gt;&lt;script&gt;">x</a>'
    assert tag("p", class_="c", aria_label=1) == '<p class="c" aria-label="1"></p>'
    assert joined(["<", None, Markup("<br>")]) == "&lt;<br>"


@pytest.mark.parametrize("character", ["\x00", "\x1b", "\ud800", "\u202e", "\u2066"])
def test_shows_the_codes_of_characters_that_steer(character):
    assert character not in text(f"a{character}b")
    assert "\\" in text(f"a{character}b")
    text(character).encode()


def test_table_has_caption_and_names():
    read = Read(table("T", ("name", "value"), [("a", "1"), ("b", "2")]))
    names = [name for name, _ in read.tags]
    assert names[:2] == ["table", "caption"]
    assert [given["scope"] for name, given in read.tags if name == "th"] == [
        "col",
        "col",
        "row",
        "row",
    ]


def test_numbers():
    assert [number(v) for v in (1234.5, 0.123456, None, float("nan"), 0)] == [
        "1,234",
        "0.1235",
        "n/a",
        "n/a",
        "0",
    ]
    assert [percent(v) for v in (0.5, 0.0512, 0.0001, 0)] == [
        "50 %",
        "5.1 %",
        "< 0.1 %",
        "0.0 %",
    ]


def test_long_names_keep_their_ends_and_stay_different():
    question = (
        "On a scale from one to five, how much do you agree that " + "really " * 30
    )
    names = [
        f"{question}{end}"
        for end in ("prices are fair?", "shops are near?", "prices are fair!")
    ]
    short = cut_all(names)
    assert [len(name) for name in short] == [NAME_WIDTH] * 3
    assert all(name.startswith("On a scale from one") and "…" in name for name in short)
    assert [name[-5:] for name in short] == ["fair?", "near?", "fair!"]
    middles = [f"{question}{k}{question}" for k in ("first", "second", "secret")]
    assert len(set(cut_all(middles))) == 3
    assert cut_all(["a", "a", "b"]) == ["a", "a", "b"]
    assert cut("a" * 30, 9) == "aaaa…aaaa"


@given(st.lists(st.text("ab ", max_size=30), unique=True), st.integers(8, 20))
def test_different_names_look_different(names, width):
    short = cut_all(names, width)
    assert len(set(short)) == len(names)
    assert all(len(name) <= width for name in short)


def test_blanks_that_would_not_be_seen_are_quoted():
    shown = ["finishing", "'finishing '", "two words", "'two  words'", "'a\\tb'", "5"]
    assert (
        cut_all(["finishing", "finishing ", "two words", "two  words", "a\tb", 5])
        == shown
    )
    assert named_shares({"finishing": 0.7, "finishing ": 0.3}) == [
        "finishing 70 %",
        "'finishing ' 30 %",
    ]


def test_shares_have_one_rounding_with_their_errors():
    shares = {"age": 0.704, "pay": 0.0712, "none": 0.0}
    assert named_shares(shares) == ["age 70 %", "pay 7.1 %", "none 0.0 %"]
    assert named_shares(shares, {"age": 0.12, "pay": 0.031, "none": 0.0004}) == [
        "age 70 ± 12 %",
        "pay 7.1 ± 3.1 %",
        "none 0.0 ± < 0.1 %",
    ]
    assert [signed(value) for value in (0.5, -0.5, 0, 12345)] == [
        "+0.5",
        "-0.5",
        "0",
        "+12,345",
    ]
