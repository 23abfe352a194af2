"""Words for numbers and for a fitted model, which the reports have in common."""

from __future__ import annotations

from typing import Any

LEAST_SHARE = 0.01
MOST_RELEVANT = 3


def share(value: float | None) -> str:
    """A number with three decimals."""
    return "undefined" if value is None else f"{value:z.3f}"


def number(value: float | None) -> str:
    """A number as people read it: four digits, and thousands in groups."""
    if value is None:
        return "undefined"
    if 1000 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def model_lines(facts: dict[str, Any]) -> dict[str, str]:
    """Feature maps, ridge penalty, relevances, selection and solver, a line for each."""
    maps, alpha = facts["maps"], f"ridge penalty {number(facts['alpha'])}"
    lines = {"model": f"{_map(maps[0])}; {alpha}"}
    if len(maps) > 1:
        lines = {"model": f"sum of {len(maps)} kernels; {alpha}"}
        lines |= {f"map {m}": f"weight {number(part['weight'])}: {_map(part)}" for m, part in enumerate(maps, 1)}
    if shares := relevances(facts):
        lines["relevance"] = ", ".join(shares)
    if facts.get("choice"):
        lines["selected"] = f"{facts['choice']['chosen']}: {facts['choice']['reason']}"
    times = f"{facts['n_iter']:,} iteration{'' if facts['n_iter'] == 1 else 's'}" if facts["n_iter"] else ""
    if facts["solver"] == "cg":
        lines["solver"] = f"conjugate gradients, {times} ({facts['solver_reason']})"
    elif facts["solver"] == "exact":
        lines["solver"] = "exact kernel matrix" + (f", conjugate gradients, {times}" if times else "")
    elif facts["solver"]:
        lines["solver"] = "direct, by the Gram matrix of the features"
    return lines | ({"uncertainty": "intervals and standard deviations"} if facts["uncertainty"] else {})


def model_line(facts: dict[str, Any]) -> str:
    """The model in one line: how it was selected, or what it is, and its most relevant columns."""
    choice = facts.get("choice")
    if choice:
        n = len(choice["candidates"])
        line = f"{choice['chosen']} ({choice['reason']}{f'; {n} candidates' if n > 1 else ''})"
    else:
        line = model_lines(facts)["model"]
    shares = relevances(facts)[:MOST_RELEVANT]
    return f"{line}; most relevant: {', '.join(shares)}" if shares else line


def relevances(facts: dict[str, Any]) -> list[str]:
    """Columns with at least one per cent of the relevance, the most relevant first."""
    shares = (facts.get("importances") or {}).items()
    return [f"{name} {100 * share:.0f} %" for name, share in shares if share >= LEAST_SHARE]


def _map(facts: dict[str, Any]) -> str:
    """Kernel, lengthscale and number of features; of bins how many there are and how full."""
    scale = facts["lengthscale"]
    text = f"{facts['kernel'] or 'linear'} kernel"
    if "metric" in facts:
        learned = {"ard": "learned lengthscales and warps", "full": "a learned linear map of the columns"}
        text, scale = f"{text} with {learned[facts['metric']]}", None
    if scale and scale["min"] == scale["max"]:
        text += f", lengthscale {number(scale['min'])}"
    elif scale:
        text += f", lengthscales {number(scale['min'])} to {number(scale['max'])}, median {number(scale['median'])}"
    if "rows_per_bin" not in facts:
        return f"{text}; {facts['n_features']:,} {'rows' if facts['map'] == 'KernelRows' else 'features'}"
    text += f"; {facts['n_components']:,} grids"
    if facts["n_buckets"]:
        return f"{text} of {facts['n_buckets']:,} buckets"
    filled = f"{facts['rows_per_bin']:.3g} rows per bin, {100 * facts['alone']:.2g} % of rows alone in theirs"
    return f"{text}, {facts['n_features']:,} occupied bins; {filled}"
