"""The page in a real browser: predictions while typing, corrections, new classes, keyboard, light and dark."""

import shutil

import pytest

sync_api = pytest.importorskip("playwright.sync_api", reason="the tests of the page require: pip install playwright")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="the tests of the page require chromium")


@pytest.fixture(scope="module")
def browser():
    sync_api.expect.set_options(timeout=60_000)  # ms; the machine may be busy
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, client):
    """The page, which must not write errors to the console or break its own policy."""
    http = client()
    page = browser.new_page()
    errors = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(str(http.base_url))
    page.wait_for_selector("#best li")
    page.model = http.model
    yield page
    page.close()
    assert not errors


FIRST = "#best li:first-child button span:first-child"


def expect(page, selector):
    """Waits until something is true of an element."""
    return sync_api.expect(page.locator(selector))


def test_predictions_follow_while_typing(page):
    page.fill("#text", "")
    page.type("#text", "piano and violin near a bus")
    expect(page, FIRST).to_have_text("music")
    expect(page, "#marked mark >> nth=0").to_have_text("piano")
    expect(page, "#tree g.node.best text").to_have_text("music")  # the leaf of the best label is open


def test_a_new_class_changes_the_next_prediction(page):
    page.fill("#text", "telescope and comet")
    page.fill("#label", "astronomy")
    page.press("#label", "Enter")
    expect(page, "#news").to_contain_text("is now “astronomy”")
    expect(page, FIRST).to_have_text("astronomy")
    assert page.model.n_learned == 1
    expect(page, "#facts").to_contain_text("5 labels")
    expect(page, "#about").to_contain_text("1 rows learned")


def test_labels_that_look_like_html_are_text(page):
    page.fill("#text", "telescope")
    page.fill("#label", "<img src=x onerror=alert(1)>")
    page.press("#label", "Enter")
    expect(page, "#news").to_contain_text("Learned")
    expect(page, FIRST).to_have_text("<img src=x onerror=alert(1)>")
    assert page.locator("img").count() == 0


def test_the_page_of_a_label(page):
    page.fill("#text", "dog cat")
    expect(page, FIRST).to_have_text("animal")
    page.click("#best li:first-child button")
    expect(page, "#about").to_contain_text("rows learned")
    page.click("#about .names button >> text=music")
    expect(page, "#about h3").to_have_text("music")


def test_keyboard_and_screen_reader(page):
    root = page.locator("#tree [role=treeitem]").first
    root.focus()
    assert root.get_attribute("aria-expanded") == "true" and "4 labels" in root.get_attribute("aria-label")
    page.keyboard.press("Enter")
    expect(page, "#tree [role=treeitem]").to_have_count(1)
    page.keyboard.press("Enter")
    expect(page, "#tree [role=treeitem]").not_to_have_count(1)
    for control in page.locator("input, textarea, select, button").all():
        named = "e => (e.labels && e.labels.length > 0) || e.textContent.trim() || e.getAttribute('aria-label')"
        assert control.evaluate(named), control
    assert page.locator("#news[aria-live=polite]").count() == 1


def test_light_and_dark(page):
    colour = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(colour)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colour)
    page.click("#theme")
    assert light != dark and page.evaluate(colour) == light, "the button is stronger than the system"
