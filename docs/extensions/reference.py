"""How docstrings become pages of the reference.

Docstrings are plain text: bars are those of mathematics, a trailing underscore is that
of a name, and what is indented before the first section is a formula, which becomes
LaTeX. Of the members of a class those are shown whose docstring has sections, and the
verbs of scikit-learn: the others are what the parts of the library say to one another.
"""

import inspect
import itertools
import re

VERBS = {
    "decision_function",
    "get_feature_names_out",
    "partial_fit",
    "pitch_measure",
    "plot",
    "predict",
    "sample",
    "score",
    "top_columns",
}
SPAN = re.compile(r"(``.*?``|`[^`]*`)")
BEFORE_ALL_ELSE = 100  # numpydoc reads docstrings at 500


def skip(app, what, name, item, skipped, options):
    """Leave out members that are for other parts of the library, or were written
    elsewhere.
    """
    function = getattr(item, "fget", None) or getattr(item, "__func__", item)
    if what != "class" or not callable(function) or not hasattr(function, "__module__"):
        return None
    ours = str(function.__module__).startswith("bochner")
    return (
        None
        if ours and (name in VERBS or "\n---" in (inspect.getdoc(function) or ""))
        else True
    )


def plain(app, what, name, item, options, lines):
    """Mark formulas as such, and escape what reStructuredText would take for markup."""
    lines[:] = list(marked(lines))


def marked(lines):
    """Lines of a docstring as reStructuredText."""
    prose, formula, example, made = True, False, False, False
    for at, line in enumerate(lines):
        prose &= not re.fullmatch(
            r"-{3,}", lines[at + 1].strip() if at + 1 < len(lines) else ""
        )
        indented, blank = line.startswith("    "), not line.strip()
        if (
            prose
            and indented
            and not formula
            and (at == 0 or not lines[at - 1].strip())
        ):
            formula = True
            made = _block(lines, at)
            yield from (".. math::", "") if made else ("::", "")
        formula &= indented or blank
        example = line.lstrip().startswith(">>>") or (example and not blank)
        if formula and indented and made:
            yield f"    {latex(line.strip())}"
        else:
            yield line if formula or example else escaped(line)


def _block(lines, at):
    """Whether all lines of the formula that begins at a line can be LaTeX."""
    block = itertools.takewhile(lambda line: line.startswith("    "), lines[at:])
    return all(latex(line.strip()) is not None for line in block)


FUNCTIONS = ("exp", "ln", "cos", "sin", "min", "max", "sup", "sqrt")
GREEK = {"lam": "lambda", "eps": "varepsilon"} | {
    name: name
    for name in (
        "alpha",
        "delta",
        "gamma",
        "kappa",
        "lambda",
        "mu",
        "pi",
        "rho",
        "sigma",
    )
}
WORDS = {"diam", "trace", "diag", "Var", "any", "hat"}
WORDY = {
    r"sup over (\S+, \S+) in (\w+) of": r"sup_(\1 in \2)",
    r"integral from (\S+) to (.+?) of": r"int_(\1)^(\2)",
}
TOKEN = re.compile(r"[A-Za-z]+|\d+|\s+|.")
SIGNS = {"‖": r"\|", "[": "[", "]": "]", "²": "^2", "±": r"\pm "}


def latex(formula):
    """LaTeX of a formula in plain text, as docstrings have them; None where it holds
    words of prose.
    """
    for words, short in WORDY.items():
        formula = re.sub(words, short, formula)
    formula = (
        re.sub(r"\^-(\d+/\d+|\d+)", r"^(-\1)", formula)
        .replace("<=", "≤")
        .replace(">=", "≥")
    )
    tokens, made, k = TOKEN.findall(formula), [], 0
    while k < len(tokens):
        k = _translate(tokens, k, made)
        if k is None:
            return None
    return "".join(made)


def _translate(tokens, k, made):
    """Append one token, or a group in braces after a power, an index or a root; the
    number of the next token.
    """
    token, following = tokens[k], tokens[k + 1] if k + 1 < len(tokens) else ""
    grouped = token in ("^", "_", "sqrt") and following == "("
    if grouped:
        end = _closing(tokens, k + 1)
        inner = latex("".join(tokens[k + 2 : end]))
        made.append(f"{'' if token != 'sqrt' else chr(92)}{token}{{{inner}}}")
        return None if inner is None else end + 1
    if token == "_" and following.isalnum():
        made.append(f"_{{{following}}}")
        return k + 2
    if token == "_":
        return None
    named = {
        "≤": r"\le ",
        "≥": r"\ge ",
        "in": r"\in ",
        "int": r"\int",
        "sum": r"\sum",
        "prod": r"\prod",
        **SIGNS,
    }
    if token in named:
        made.append(named[token])
    elif token in FUNCTIONS or token in GREEK:
        made.append(f"\\{GREEK.get(token, token)} ")
    elif token in WORDS:
        made.append(rf"\mathrm{{{token}}}")
    elif token.isalpha() and len(token) > 2:
        return None
    else:
        made.append(r" \quad " if len(token) > 2 and token.isspace() else token)
    return k + 1


def _closing(tokens, start):
    """Number of the parenthesis that closes one."""
    depth = 0
    for k in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[k], 0)
        if not depth:
            return k
    raise ValueError(f"There is no closing parenthesis in {''.join(tokens)!r}.")


def escaped(line):
    """A line without bars and trailing underscores that are markup; names of
    parameters stay as they are.
    """
    head, colon, rest = line.partition(" : ")
    if colon and re.fullmatch(r"[\w, *]+", head):
        return head + colon + escaped(rest)
    if re.fullmatch(r"\w+", line):
        return line
    parts = SPAN.split(line)
    parts[::2] = [
        re.sub(r"(?<=\w)_(?!\w)", r"\\_", part.replace("|", r"\|"))
        for part in parts[::2]
    ]
    return "".join(parts)


def setup(app):
    """Ask for each member, and look at each docstring before numpydoc does."""
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", plain, priority=BEFORE_ALL_ELSE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
