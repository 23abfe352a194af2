"""Checks that built pages load nothing from the network: no script, style, font,
picture or frame.
"""

import re
from html.parser import HTMLParser
from pathlib import Path

LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "object": "data",
}
LOADING_LINKS = {
    "stylesheet",
    "preload",
    "prefetch",
    "preconnect",
    "dns-prefetch",
    "icon",
    "manifest",
    "modulepreload",
}
REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
REMOTE_IN_STYLE = re.compile(
    r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE
)


class Loads(HTMLParser):
    """Addresses of other hosts that a page loads when it is opened; plain links are
    not among them.
    """

    def __init__(self, text):
        super().__init__()
        self.found = REMOTE_IN_STYLE.findall(text)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Look at the address of a tag that loads something."""
        values = dict(attrs)
        address = values.get(LOADED.get(tag, ""))
        if tag == "link" and LOADING_LINKS & set(
            (values.get("rel") or "").lower().split()
        ):
            address = values.get("href")
        if address and REMOTE.match(address):
            self.found.append(address)


def remote_loads(folder):
    """Each remote address that pages and styles below a folder load, with the file
    that does.
    """
    found = []
    for path in sorted(Path(folder).rglob("*")):
        if path.suffix in (".html", ".svg"):
            found += [
                (path, address) for address in Loads(path.read_text("utf-8")).found
            ]
        elif path.suffix == ".css":
            found += [
                (path, address)
                for address in REMOTE_IN_STYLE.findall(path.read_text("utf-8"))
            ]
    return found


def check(app, exception):
    """Fail the build where a page loads something from the network."""
    from sphinx.errors import ExtensionError

    found = (
        remote_loads(app.outdir)
        if exception is None and app.builder.format == "html"
        else []
    )
    if found:
        lines = "\n".join(f"{path}: {address}" for path, address in found)
        raise ExtensionError(f"pages load these from the network:\n{lines}")


def setup(app):
    """Check at the end of each build."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
