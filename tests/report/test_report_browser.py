"""The report page in a headless browser: no errors, nothing wider than the screen,
something to see.
"""

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from bochner import KernelMachineClassifier, KernelMachineRegressor

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip(
        "playwright.sync_api", reason='no Playwright: pip install "bochner[browser]"'
    )
    path = os.environ.get("BOCHNER_BROWSER") or next(
        filter(None, map(shutil.which, BROWSERS)), None
    )
    if path is None:
        pytest.skip(
            "no Chromium: apt-get install chromium, or name one in BOCHNER_BROWSER"
        )
    with api.sync_playwright() as playwright:
        own = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield own
        own.close()


@pytest.fixture(scope="module", params=["regression", "classification"])
def report(request, tmp_path_factory):
    """A report with names that are long, and names that would run."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    names = [
        "<script>document.title = 'run'</script>",
        "a_very_long_name_without_any_space_" * 4,
        "x",
    ]
    X = pd.DataFrame(rng.uniform(size=(300, 3)), columns=names)
    X["kind"] = rng.choice(
        ["<img src=x onerror=\"document.title='run'\">", "word " * 40], 300
    )
    y = np.sin(5 * X["x"]) + (X["kind"] < "a")
    if request.param == "classification":
        model, y = (
            KernelMachineClassifier(kernel="gaussian", n_components=64, random_state=0),
            y > y.mean(),
        )
    else:
        model = KernelMachineRegressor(random_state=0, time_limit=2.0)
    out = tmp_path_factory.mktemp("report") / "report.html"
    model.fit(X, y).report_html(X, y, out)
    return out


def opened(browser, report, **options):
    page, heard = browser.new_page(**options), []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on(
        "request",
        lambda request: (
            heard.append(request.url) if request.url != Path(report).as_uri() else None
        ),
    )
    page.goto(Path(report).as_uri())
    return page, heard


def pixels(png):
    """Colours of a picture, shape (height, width, 3), from 0 to 1."""
    image = pytest.importorskip("matplotlib.image")
    return image.imread(io.BytesIO(png))[..., :3]


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1100])
def test_page_fits_the_screen_and_shows_something(browser, report, scheme, width):
    page, heard = opened(
        browser, report, viewport={"width": width, "height": 800}, color_scheme=scheme
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.title() != "run"
    assert "Partial dependence" in page.inner_text("main")
    assert "<script>" in page.inner_text("main")
    colours = pixels(page.screenshot(full_page=True))
    drawn = np.abs(colours - colours[0, 0]).max(axis=2) > 0.1
    assert 0.02 < drawn.mean() < 0.5
    assert drawn.any(axis=1).mean() > 0.4
    light = (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert light == (scheme == "light")
    assert heard == []
    page.close()


def test_charts_fill_the_page(browser, report):
    """In pairs on a wide screen, one below the other on a narrow one."""
    for width, share in ((1400, 0.45), (400, 0.95)):
        page, _ = opened(browser, report, viewport={"width": width, "height": 800})
        whole = page.locator("main").bounding_box()["width"]
        widths = [one.bounding_box()["width"] for one in page.locator("figure").all()]
        assert len(widths) > 10
        assert min(widths) >= share * whole
        page.close()


def test_charts_have_the_colours_of_the_scheme(browser, report):
    found = []
    for scheme in ("light", "dark"):
        page, _ = opened(browser, report, color_scheme=scheme)
        fills = "one => getComputedStyle(one).fill"
        text = page.locator("svg text").first.evaluate(fills)
        ink = page.locator("body").evaluate("one => getComputedStyle(one).color")
        assert text == ink
        found.append(page.locator("svg path[style*='--c0']").first.evaluate(fills))
        page.close()
    assert found == ["rgb(0, 114, 178)", "rgb(86, 180, 233)"]


def test_keyboard_reaches_the_content(browser, report):
    page, _ = opened(browser, report)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate(
        "document.querySelector('main').contains(document.activeElement)"
    )
    page.close()


def test_pictures_have_names_and_numbers_open(browser, report):
    page, _ = opened(browser, report)
    assert page.get_by_role("img").count() == page.locator("svg").count() > 5
    assert page.get_by_role("heading", level=1).count() == 1
    details = page.locator("details").first
    details.locator("summary").click()
    assert details.locator("table").is_visible()
    page.close()


def test_page_prints_on_white(browser, report):
    page, _ = opened(browser, report, color_scheme="dark")
    page.emulate_media(media="print")
    assert (
        page.evaluate("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )
    assert not page.locator("nav").is_visible()
    assert len(page.pdf()) > 10_000
    page.close()
