"""Google Drive answers a request for a large file with a page that asks whether one is sure."""

from html.parser import HTMLParser
from urllib.parse import urlencode, urljoin, urlsplit


class _Form(HTMLParser):
    """The target and the hidden fields of the page's download form, and the page's title."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.title = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._inside = tag if tag == "title" else self._inside
        if tag == "form" and values.get("id") == "download-form":
            self._inside, self.action = "form", values.get("action", "")
        elif tag == "input" and self._inside == "form" and values.get("name"):
            self.fields[values["name"]] = values.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data.strip()


def confirmed_address(page: str, address: str) -> str | None:
    """The address that the page's form leads to, or None where the page has no such form.

    Only addresses of the same host or of Google are followed: a page must not lead elsewhere.
    """
    form = _read(page)
    if form.action is None:
        return None
    target = urljoin(address, form.action)
    host, own = urlsplit(target).hostname or "", urlsplit(address).hostname or ""
    trusted = host == own or (host.endswith(".google.com") and own.endswith(".google.com"))
    if not trusted or urlsplit(target).scheme not in ("http", "https"):
        return None
    return f"{target}{'&' if '?' in target else '?'}{urlencode(form.fields)}"


def title_of(page: str) -> str:
    """What the page says it is, for a message."""
    return _read(page).title[:80]


def _read(page: str) -> _Form:
    form = _Form()
    form.feed(page)
    form.close()
    return form
