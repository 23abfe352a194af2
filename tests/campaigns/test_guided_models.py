"""A short slice of the campaign of model files that are guided by coverage."""

import pytest

pytest.importorskip("atheris")

import guided_models


def test_slice(tmp_path):
    case, wrong, _ = guided_models.judge(tmp_path, 100, 0)
    assert not wrong, f"{case}: {wrong}"
    assert "cov: " in case
    assert len(list((tmp_path / "corpus").iterdir())) > len(guided_models.NAMES)


@pytest.mark.parametrize(
    ("line", "code", "wrong"),
    [
        ("RuntimeError: was found: took 7 bytes", 77, "took 7 bytes"),
        ("x", 1, "ended with 1: #3 cov: 5\nx\n"),
        ("x", 0, ""),
    ],
)
def test_ends_of_the_fuzzer(tmp_path, monkeypatch, line, code, wrong):
    script = tmp_path / "script.py"
    script.write_text(f"print('#3 cov: 5'); print({line!r}); raise SystemExit({code})")
    monkeypatch.setattr(guided_models, "__file__", str(script))
    assert guided_models.judge(tmp_path, 5, 0)[:2] == ("0: #3 cov: 5", wrong)
