"""A slice of the campaign of hostile pages: some as text, and two in a browser."""

import hostile_pages
import numpy as np
import pytest

import bochner.markup


def table_of(seed):
    return hostile_pages.hostile_table(np.random.default_rng(seed), seed % 2 == 1)


@pytest.fixture(scope="module")
def window():
    pytest.importorskip(
        "playwright.sync_api", reason='no Playwright: pip install "bochner[browser]"'
    )
    if hostile_pages.browser_path() is None:
        pytest.skip(
            "no Chromium: apt-get install chromium, or name one in BOCHNER_BROWSER"
        )
    with hostile_pages.window() as own:
        yield own


@pytest.fixture
def unescaped(monkeypatch):
    monkeypatch.setattr(bochner.markup, "escape", lambda text: text)


@pytest.mark.parametrize("seed", [0, 1])
def test_slice_without_a_browser(seed, tmp_path):
    """The parser of Python stands for that of the browser."""
    table = table_of(seed)
    page = hostile_pages.Elements(
        hostile_pages.report_of(table, seed, tmp_path / "report.html")
    )
    assert not page.names & set(hostile_pages.FORBIDDEN.split(", "))
    assert not [name for name in page.attributes if name.startswith("on")]
    assert all(link and link.startswith("#") for link in page.links)
    assert not hostile_pages.missing(table.texts, page.text)


@pytest.mark.parametrize("seed", [5])
def test_slice_in_a_browser(seed, tmp_path, window):
    case, found = hostile_pages.judge(seed, tmp_path / "page.html", window)
    assert not found.wrong, case


def test_the_campaign_sees_reports_that_are_not_escaped(tmp_path, window, unescaped):
    table = table_of(1)
    hostile_pages.report_of(table, 1, tmp_path / "page.html")
    assert hostile_pages.wrong_report(tmp_path / "page.html", table.texts, window)


@pytest.mark.parametrize("attack", range(5))
def test_the_campaign_sees_scripts_of_fragments(tmp_path, window, attack):
    path = tmp_path / "page.html"
    path.write_text(hostile_pages.NOTEBOOK.format(hostile_pages.ATTACKS[attack]))
    assert hostile_pages.wrong_fragments(path, [], window)
