"""What the pages of the reference leave out: methods that a class has from scikit-learn alone."""


def skip(app, what, name, item, skipped, options):
    """Leave out members that were written elsewhere, whose texts link to pages of elsewhere."""
    home = getattr(item, "__module__", None) or getattr(getattr(item, "fget", None), "__module__", None)
    return True if home and not str(home).startswith("bochner") else None


def setup(app):
    """Ask for each member."""
    app.connect("autodoc-skip-member", skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
