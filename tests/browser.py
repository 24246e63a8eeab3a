"""Opens a page in a headless browser, where there is one."""

import html as entities
import json
import re
import shutil
import subprocess

import pytest


def browser():
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next(filter(None, map(shutil.which, names)), None)


PROBE = """<script>
addEventListener("error", e => report.errors.push(String(e.message)));
addEventListener("securitypolicyviolation", e => report.errors.push(e.violatedDirective));
const report = {errors: []};
addEventListener("load", () => {
  const root = document.scrollingElement;
  report.width = innerWidth; report.scroll = root.scrollWidth;
  report.requests = performance.getEntriesByType("resource").length;
  report.outside = [...document.querySelectorAll("body *")].filter(e => !e.closest(".scroll")
    && !e.closest("thead") && e.getBoundingClientRect().right > innerWidth + 0.5).length;
  report.texts = Math.min(...[...document.querySelectorAll("figure > svg text")].map(
    e => parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a));
  report.panels = document.querySelectorAll("figure").length;
  top.document.title = JSON.stringify(report);
});
</script>"""


needs_browser = pytest.mark.skipif(
    browser() is None, reason="no chromium or chrome to open the page with"
)


def look(text, width, tmp_path):
    """What the browser saw of the page at this width. The probe needs a script, so the copy that it
    is put into has no policy; a frame gives widths below the 500 pixels that a window has at least.
    """
    probed = re.sub(r"<meta http-equiv=[^>]*>", "", text).replace("<head>", "<head>" + PROBE, 1)
    frame = (
        f'<iframe style="border:0;width:{width}px;height:900px" srcdoc="{entities.escape(probed)}">'
    )
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(f"<!doctype html><title>-</title><body style='margin:0'>{frame}</iframe>")
    command = [browser(), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               "--disable-dev-shm-usage", f"--user-data-dir={tmp_path / 'profile'}",
               "--window-size=1400,1000", "--virtual-time-budget=5000", "--enable-logging=stderr",
               "--dump-dom", wrapper.as_uri()]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    title = re.search(r"<title>(\{.*?\})</title>", run.stdout)
    assert title, run.stderr[-2000:]
    return json.loads(entities.unescape(title[1])) | {"console": "CONSOLE" in run.stderr}


def assert_fits(text, width, panels, tmp_path):
    """No error, no request, nothing outside, every panel there and readable."""
    found = look(text, width, tmp_path)
    assert found["width"] == width
    assert found["scroll"] <= width
    assert found["outside"] == 0
    assert found["errors"] == [] and not found["console"]
    assert found["requests"] == 0
    assert found["panels"] == panels
    assert found["texts"] > 7  # the smallest, which are raised exponents
