"""The page in a real browser: predictions while typing, corrections, new classes, keyboard, light and dark."""

import shutil

import pytest
from sklearn.datasets import load_digits

from manyclass import OneAgainstAllClassifier
from tests.serve.tiny import train_model

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
def open_page(browser, client):
    """`open_page(**options)` is the page, which must not write errors to the console or break its own policy."""
    errors, opened = [], []

    def make(**options):
        http, page = client(**options), browser.new_page()
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(str(http.base_url))
        page.wait_for_selector("#best li")
        page.model, page.allowed = http.model, ()  # errors that a test expects contain one of these texts
        opened.append(page)
        return page

    yield make
    for page in opened:
        page.close()
    allowed = [text for page in opened for text in page.allowed]
    assert not [error for error in errors if not any(text in error for text in allowed)]


@pytest.fixture
def page(open_page):
    """The page of the tiny model."""
    return open_page()


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
    expect(page, "#about").to_contain_text("1 row learned")


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


def test_all_labels_of_a_text_are_learned_together(open_page, tmp_path):
    page = open_page(path=train_model(tmp_path, "tags.model", several=True))
    page.fill("#text", "piano and violin with a comet")
    expect(page, "#best input[aria-label='music is correct']").to_be_checked()
    expect(page, "#best input[aria-label='any is correct']").to_be_checked()
    expect(page, "#best input[aria-label='food is correct']").not_to_be_checked()
    page.uncheck("#best input[aria-label='any is correct']")
    page.fill("#label", "astronomy")
    page.press("#label", "Enter")
    expect(page, "#news").to_contain_text("Learned “music”, “astronomy”")
    assert page.model.n_learned == 1
    found = page.request.get(f"{page.url}models/things/label?label=any").json()
    assert found["rows"] == 400, "the label that was not ticked was not learned"
    assert page.request.get(f"{page.url}models/things/label?label=astronomy").json()["rows"] == 1


def test_another_model(open_page, tmp_path):
    X, y = load_digits(return_X_y=True)
    OneAgainstAllClassifier(n_epochs=1, random_state=0).fit(X, y).save(tmp_path / "digits.model")
    page = open_page(also=tmp_path / "digits.model")
    page.allowed = ("404",)  # it has no tree
    page.click("#best li:first-child button")
    expect(page, "#about h3").to_have_count(1)
    expect(page, "#tree g.node").not_to_have_count(0)
    page.select_option("#model", "also")
    expect(page, "#facts").to_contain_text("10 labels, one-against-all")
    expect(page, "#news").to_contain_text("takes features")
    for gone in ("#best li", "#about h3", "#tree g.node"):
        expect(page, gone).to_have_count(0)
    for hidden in ("#text", "#learn"):
        expect(page, hidden).to_be_hidden()
    page.select_option("#model", "things")
    expect(page, "#best li").not_to_have_count(0)
    expect(page, "#tree g.node").not_to_have_count(0)
    expect(page, "#news").to_have_text("")


def test_arrow_keys_in_the_tree(page):
    items = page.locator("#tree [role=treeitem]")
    items.first.focus()
    focused = "document.activeElement.getAttribute('aria-label')"
    root = page.evaluate(focused)
    page.keyboard.press("ArrowLeft")
    expect(page, "#tree [role=treeitem]").to_have_count(1)
    page.keyboard.press("ArrowRight")
    expect(page, "#tree [role=treeitem]").not_to_have_count(1)
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused) != root
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(focused) == root
    assert page.locator("#tree [tabindex='0']").count() == 1


def test_a_second_try_is_the_same_row(page):
    page.allowed, ids = ("503",), []

    def answer(route):
        ids.append(route.request.post_data_json["id"])
        if len(ids) == 1:
            route.fulfill(status=503, json={"error": "the learner is busy"})
        else:
            route.continue_()

    page.route("**/learn", answer)
    page.fill("#text", "telescope and comet")
    page.fill("#label", "astronomy")
    page.press("#label", "Enter")
    expect(page, "#news.error").to_have_text("the learner is busy")
    page.press("#label", "Enter")
    expect(page, "#news").to_contain_text("Learned “astronomy”")
    assert len(ids) == 2 and ids[0] == ids[1] and page.model.n_learned == 1
