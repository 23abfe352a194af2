"""Builds HTML and SVG in which every text and every attribute is escaped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any

VOID = frozenset({"meta", "br", "hr"})
STEERING = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # change the order of text


class Markup(str):
    """HTML that holds no unescaped text: what `tag`, `text` and `joined` return."""

    __slots__ = ()

    def __html__(self) -> str:
        """The same, for templates."""
        return self


def text(value: Any) -> Markup:
    """Any value as escaped text; characters that do not print, or that change the order of others, as their codes."""
    if isinstance(value, Markup):
        return value
    return Markup(escape("".join(map(_shown, str(value))), quote=True))


def _shown(character: str) -> str:
    if character in "\n " or (character.isprintable() and character not in STEERING):
        return character
    return character.encode("unicode_escape", "backslashreplace").decode()


def joined(parts: Iterable[Any]) -> Markup:
    """Parts one after the other, each escaped where it is no markup; None is left out."""
    return Markup("".join(text(part) for part in parts if part is not None))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element.

    Parameters
    ----------
    name : str
    *children : Markup, or any value
        Escaped where it is no markup.
    **attributes : any value
        `class_` is the attribute "class", `aria_label` "aria-label"; None and False leave one out, True has no value.
    """
    given = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.rstrip("_").replace("_", "-")
        given.append(f" {key}" if value is True else f' {key}="{text(value)}"')
    start = f"<{name}{''.join(given)}>"
    return Markup(start if name in VOID else f"{start}{joined(children)}</{name}>")


def table(
    caption: str, head: Sequence[Any], rows: Iterable[Sequence[Any]], words: Collection[int] = (0,), **attributes: Any
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
    **attributes
        Of the table.
    """

    def side(k: int) -> str:
        return f"text-align:{'left' if k in words else 'right'}"

    def cells(row: Sequence[Any]) -> Markup:
        first, *others = row
        named = tag("th", first, scope="row", style=side(0))
        return tag("tr", named, *(tag("td", value, style=side(k)) for k, value in enumerate(others, 1)))

    names = tag("tr", *(tag("th", name, scope="col", style=side(k)) for k, name in enumerate(head)))
    body = tag("tbody", *map(cells, rows))
    return tag("table", tag("caption", caption), tag("thead", names), body, **attributes)


def number(value: Any, unknown: str = "n/a") -> str:
    """A number with four digits, thousands in groups; `unknown` where there is none."""
    if value is None or value != value:
        return unknown
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def named_shares(shares: Mapping[str, float], errors: Mapping[str, float] | None = None) -> list[str]:
    """Names with their shares in percent, and with standard errors where there are any."""
    noise = {} if errors is None else {name: f" ± {100 * error:.0f}" for name, error in errors.items()}
    return [f"{name} {100 * share:.0f}{noise.get(name, '')} %" for name, share in shares.items()]


def percent(share: float) -> str:
    """A share in percent, with two digits."""
    return "< 0.1 %" if 0 < share < 0.001 else f"{100 * share:.{1 if share < 0.0995 else 0}f} %"
