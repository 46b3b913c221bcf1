"""Open a page in a real browser: headless Chromium through playwright.

with opened(path) as seen:
    seen.page.click("#next")          # playwright's page
assert seen.quiet()                   # no console error, no exception, no network request
"""

import contextlib
import shutil
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Seen:
    """A record of an open page: its `errors` (console or thrown), and `requests` beyond its own file."""

    def __init__(self, page, own):
        self.page, self.errors, self.requests = page, [], []
        page.on(
            "console",
            lambda message: message.type in ("error", "warning") and self.errors.append(message.text),
        )
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url != own
                and not request.url.startswith("data:")
                and self.requests.append(request.url)
            ),
        )

    def quiet(self):
        """Assert that the page had no errors and made no network requests. Returns True."""
        assert not self.errors, f"errors of the page: {self.errors}"
        assert not self.requests, f"the page requested {self.requests}"
        return True


@contextlib.contextmanager
def opened(path, width=1280, height=800, dark=False):
    """Open and load a page from a file, in a window of this size, in dark or light mode."""
    with browser() as chromium:
        tab = chromium.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        tab.set_default_timeout(20_000)
        url = Path(path).resolve().as_uri()
        seen = Seen(tab, url)
        tab.goto(url, wait_until="load")
        yield seen


@contextlib.contextmanager
def browser():
    """Start headless Chromium. Skips the test if playwright or Chromium is not installed."""
    playwright = pytest.importorskip(
        "playwright.sync_api",
        reason="playwright is not installed (pip install playwright), so no page was opened.",
    )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("Chromium is not installed (Debian: apt install chromium), so no page was opened.")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=path, args=list(OPTIONS))
        try:
            yield chromium
        finally:
            chromium.close()


def screenshot(path, out, width=1280, height=800, dark=False, do=None, full_page=False):
    """Write a picture of a page to the file `out`, after running the JavaScript `do`."""
    with opened(path, width, height, dark) as seen:
        if do:
            seen.page.evaluate(do)
        seen.page.wait_for_timeout(800)  # scrolling is smooth
        seen.page.screenshot(path=out, full_page=full_page)
        seen.quiet()
    return out
