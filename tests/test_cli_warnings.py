"""What the command prints of warnings."""

import warnings

import pytest

from bochner.cli.failures import guarded


def test_each_text_once_whatever_its_numbers(capsys):
    with guarded(traceback=False):
        for k in range(3):
            for what in ("rows", "columns"):
                warnings.warn_explicit(
                    f"advice {k} on {what}",
                    UserWarning,
                    "a.py",
                    7,
                    "bochner.data.file_kinds",
                )
    assert capsys.readouterr().err.splitlines() == [
        "warning: advice 0 on rows",
        "warning: advice 0 on columns",
    ]


def test_other_libraries_are_silent(capsys):
    with guarded(traceback=False):
        warnings.warn_explicit("advice", UserWarning, "a.py", 7, "pandas.core")
        warnings.warn_explicit(
            "advice", DeprecationWarning, "a.py", 7, "bochner.data.file_kinds"
        )
    assert capsys.readouterr() == ("", "")


def test_they_pass_with_a_traceback():
    with pytest.warns(UserWarning, match="advice"), guarded(traceback=True):
        warnings.warn_explicit(
            "advice", UserWarning, "a.py", 7, "bochner.data.file_kinds"
        )
