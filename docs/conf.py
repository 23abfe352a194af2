"""Settings of the documentation: ``python -m sphinx -W -j auto -b html docs
docs/_build/html``.
"""

import os
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "agg")
sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import bochner

project = "bochner"
author = "The bochner developers"
copyright = f"2026, {author}"
version = release = bochner.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "kernel_cards",
    "mathml",
    "offline",
    "pages",
    "reference",
]
exclude_patterns = [
    "_build",
    "_templates",
    "extensions",
    "gallery/**/*.ipynb",
    "gallery/**/*.py",
    "gallery/**/*.md5",
]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the settings of the gallery hold functions

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

autosummary_generate = True
autodoc_typehints = "none"
default_role = "code"
# Methods stand under their class: "fit()", not "KernelMachineRegressor.fit()"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False


strict = ExitStack()


def strict_warnings(gallery_conf, name, when):
    """Warnings are errors while an example runs, as in the tests."""
    strict.close()
    if when == "before":
        strict.enter_context(warnings.catch_warnings())
        warnings.simplefilter("error")


sphinx_gallery_conf = {
    "reset_modules": ("matplotlib", strict_warnings),
    "reset_modules_order": "both",
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "show_memory": False,
    "remove_config_comments": True,
    "backreferences_dir": None,
    "write_computation_times": False,
    "parallel": True,  # in as many processes as -j has
    "plot_gallery": os.environ.get("BOCHNER_DOCS_EXAMPLES", "run") == "run",
}

html_theme = "pydata_sphinx_theme"
html_title = f"bochner {release}"
html_static_path = ["_static"]
html_css_files = ["bochner.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "bochner"},
    "header_links_before_dropdown": 7,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
}

# Cross-references to the names of other projects need their inventories, which come
# from the network. The site must build without one, so they are an extra that is asked
# for.
if os.environ.get("BOCHNER_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
    }
