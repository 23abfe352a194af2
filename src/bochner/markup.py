"""Builds HTML and SVG in which every text and every attribute is escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Real
from os.path import commonprefix
from typing import Any

from markupsafe import Markup, escape

NAME_WIDTH = 40  # characters of a name of a column or level that are shown
STEERING = frozenset(
    "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)  # change the order of text


def text(value: Any) -> Markup:
    """Any value as escaped text; characters that do not print, or that change the
    order of others, as their codes.
    """
    if isinstance(value, Markup):
        return value
    return escape(printed(value))


def printed(value: object) -> str:
    """Any value as text in which all characters print."""
    return "".join(
        one
        if one in "\n " or (one.isprintable() and one not in STEERING)
        else one.encode("unicode_escape", "backslashreplace").decode()
        for one in str(value)
    )


def joined(parts: Iterable[Any]) -> Markup:
    """Parts one after the other, each escaped where it is no markup; None is left
    out.
    """
    return Markup("".join(text(part) for part in parts if part is not None))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element.

    Parameters
    ----------
    name : str
    *children : Markup, or any value
        Escaped where it is no markup.
    **attributes : any value
        `class_` is the attribute "class", `aria_label` "aria-label".
    """
    given = ""
    for key, value in attributes.items():
        key = key.rstrip("_").replace("_", "-")
        given += f' {key}="{text(value)}"'
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def table(
    caption: str,
    head: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    words: Collection[int] = (0,),
) -> Markup:
    """A table with a caption, whose rows begin with their names.

    Parameters
    ----------
    caption : str
    head : sequence of str
        Names of the columns.
    rows : iterable of sequences
    words : collection of int
        Columns of text, which begin at the left; the others are aligned at the right.
    """

    def side(k: int) -> str:
        return f"text-align:{'left' if k in words else 'right'}"

    def cells(row: Sequence[Any]) -> Markup:
        first, *others = row
        named = tag("th", first, scope="row", style=side(0))
        return tag(
            "tr",
            named,
            *(tag("td", value, style=side(k)) for k, value in enumerate(others, 1)),
        )

    names = tag(
        "tr",
        *(tag("th", name, scope="col", style=side(k)) for k, name in enumerate(head)),
    )
    body = tag("tbody", *map(cells, rows))
    return tag("table", tag("caption", caption), tag("thead", names), body)


def cut(name: object, width: int = NAME_WIDTH) -> str:
    """Name of at most `width` characters, its middle left out where it is longer;
    quoted as by `_seen`.
    """
    return cut_all([name], width)[0]


def cut_all(names: Iterable[object], width: int = NAME_WIDTH) -> list[str]:
    """Names as by `cut`; of different ones that would look alike, what follows their
    common beginning is shown.
    """
    wholes = list(map(_seen, names))
    head, tail = width // 2, (width - 1) // 2
    shown = dict(zip(wholes, wholes, strict=True))
    for whole in wholes:
        if len(whole) > width:
            shown[whole] = f"{whole[:head]}…{whole[len(whole) - tail :]}"
    alike = _alike(shown)
    while alike:
        group = alike.pop()
        first = len(commonprefix(group))  # noqa: RUF071 - of names, not of paths
        again = {
            whole: f"{whole[:head]}…{whole[first : first + width - head - 1]}"
            for whole in group
        }
        shown |= again
        alike += _alike(again)
    return [shown[whole] for whole in wholes]


def cut_named(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Rows that begin with a name, with the names as by `cut_all`."""
    rows = list(rows)
    return [
        (name, *row[1:])
        for name, row in zip(cut_all(row[0] for row in rows), rows, strict=True)
    ]


def _seen(name: object) -> str:
    """The name, quoted where it has blanks that would not be seen, as at its ends:
    other names look different.
    """
    whole = str(name)
    return whole if " ".join(whole.split()) == whole else repr(whole)


def _alike(shown: Mapping[str, str]) -> list[list[str]]:
    """Groups of names that look alike."""
    groups: dict[str, list[str]] = {}
    for whole, look in shown.items():
        groups.setdefault(look, []).append(whole)
    return [group for group in groups.values() if len(group) > 1]


def number(value: Any, unknown: str = "n/a") -> str:
    """A number with four digits, thousands in groups; `unknown` where there is none."""
    if value is None or value != value:
        return unknown
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def shown_value(value: Any, width: int = NAME_WIDTH) -> str:
    """A value of a row: a number as by `number`, anything else cut; "" for None."""
    if isinstance(value, Real) and not isinstance(value, bool):
        return number(value)
    return "" if value is None else cut(value, width)


def signed(value: float) -> str:
    """A number as by `number`, with its sign also where it is positive."""
    return f"{'+' if value > 0 else ''}{number(value)}"


def named_shares(
    shares: Mapping[str, float], errors: Mapping[str, float] | None = None
) -> list[str]:
    """Names with their shares in percent, and with standard errors where there are
    any.
    """
    named = zip(cut_all(shares), shares.items(), strict=True)
    if errors is None:
        return [f"{short} {percent(share)}" for short, (_, share) in named]
    return [
        f"{short} {percent(share).removesuffix(' %')} ± {percent(errors[name])}"
        for short, (name, share) in named
    ]


def percent(share: float) -> str:
    """A share in percent, with two digits."""
    return (
        "< 0.1 %"
        if 0 < share < 0.001
        else f"{100 * share:.{1 if share < 0.0995 else 0}f} %"
    )
