"""How docstrings become pages of the reference.

Docstrings are plain text: bars are those of mathematics, a trailing underscore is that of a name, and what is indented
before the first section is a formula. Of the members of a class those are shown whose docstring has sections, and the
verbs of scikit-learn: the others are what the parts of the library say to one another.
"""

import inspect
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
    """Leave out members that are for other parts of the library, or were written elsewhere."""
    function = getattr(item, "fget", None) or getattr(item, "__func__", item)
    if what != "class" or not callable(function) or not hasattr(function, "__module__"):
        return None
    ours = str(function.__module__).startswith("bochner")
    return None if ours and (name in VERBS or "\n---" in (inspect.getdoc(function) or "")) else True


def plain(app, what, name, item, options, lines):
    """Mark formulas as such, and escape what reStructuredText would take for markup."""
    lines[:] = list(marked(lines))


def marked(lines):
    """Lines of a docstring as reStructuredText."""
    prose, formula, example = True, False, False
    for at, line in enumerate(lines):
        prose &= not re.fullmatch(r"-{3,}", lines[at + 1].strip() if at + 1 < len(lines) else "")
        indented, blank = line.startswith("    "), not line.strip()
        if prose and indented and not formula and (at == 0 or not lines[at - 1].strip()):
            formula = True
            yield from ("::", "")
        formula &= indented or blank
        example = line.lstrip().startswith(">>>") or (example and not blank)
        yield line if formula or example else escaped(line)


def escaped(line):
    """A line without bars and trailing underscores that are markup; names of parameters stay as they are."""
    head, colon, rest = line.partition(" : ")
    if colon and re.fullmatch(r"[\w, *]+", head):
        return head + colon + escaped(rest)
    if re.fullmatch(r"\w+", line):
        return line
    parts = SPAN.split(line)
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", part.replace("|", r"\|")) for part in parts[::2]]
    return "".join(parts)


def setup(app):
    """Ask for each member, and look at each docstring before numpydoc does."""
    app.connect("autodoc-skip-member", skip)
    app.connect("autodoc-process-docstring", plain, priority=BEFORE_ALL_ELSE)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
