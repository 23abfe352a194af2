"""What the command prints of warnings."""

import warnings

import pytest

from bochner.cli.errors import guarded


def test_once_for_each_place_that_they_come_from(capsys):
    with guarded(traceback=False):
        for k in range(3):
            for line in (7, 8):
                warnings.warn_explicit(f"advice {k} of {line}", UserWarning, "a.py", line, "bochner.data.files")
    assert capsys.readouterr().err.splitlines() == ["warning: advice 0 of 7", "warning: advice 0 of 8"]


def test_other_libraries_are_silent(capsys):
    with guarded(traceback=False):
        warnings.warn_explicit("advice", UserWarning, "a.py", 7, "pandas.core")
        warnings.warn_explicit("advice", DeprecationWarning, "a.py", 7, "bochner.data.files")
    assert capsys.readouterr() == ("", "")


def test_they_pass_with_a_traceback():
    with pytest.warns(UserWarning, match="advice"), guarded(traceback=True):
        warnings.warn_explicit("advice", UserWarning, "a.py", 7, "bochner.data.files")
