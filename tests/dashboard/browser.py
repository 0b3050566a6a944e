"""A server of the dashboard, and a headless Chromium that looks at it."""

import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
REQUIRED = "BROWSER_TESTS_REQUIRED"  # an environment variable: a missing browser is then an error, as in CI
WAIT_SECONDS = 60
# In a container, root has no sandbox, and /dev/shm is too small for a browser.
CHROMIUM_FLAGS = ["--no-sandbox", "--disable-dev-shm-usage"]


def need_browser() -> None:
    """Skip the tests of a module where there is no browser, or fail where there must be one."""
    packages = [name for name in ("nicegui", "playwright") if find_spec(name) is None]
    if CHROMIUM is not None and not packages:
        return
    needed = f"pip install {' '.join(packages)}" if packages else "chromium (on Debian: apt-get install chromium)"
    reason = f"the tests of the dashboard's pages need {needed}"
    if os.environ.get(REQUIRED):
        raise RuntimeError(reason)
    pytest.skip(reason, allow_module_level=True)


@contextmanager
def serving(results: Path, *words: str) -> Iterator[str]:
    """`python -m dashboard` with these results. Yields its address as it prints it, and checks that it had no error."""
    command = [sys.executable, "-m", "dashboard", f"--results_dir={results}", f"--port={free_ports(1)[0]}", *words]
    # With this variable, NiceGUI takes the server for one of its own tests.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as server:  # fmt: skip
        assert server.stdout is not None
        lines: list[str] = []
        try:
            first = server.stdout.readline()
            assert "http://" in first, first + server.stdout.read()
            # Read on, so that a full pipe does not stop the server.
            reader = threading.Thread(target=lambda: lines.extend(server.stdout or ()), daemon=True)
            reader.start()
            address = next(word for word in first.split() if word.startswith("http://"))
            _wait_for_port(urlsplit(address).port)
            yield address
        finally:
            server.terminate()
            server.wait(WAIT_SECONDS)
        reader.join(WAIT_SECONDS)
        assert lines == [], "".join(lines)


def _wait_for_port(port: int | None) -> None:
    """The server prints its address just before it listens."""
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port or 0)):
            return
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


class Visitor:
    """A page of the browser that notes errors, and requests to other places than the server."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.address = address.partition("?")[0].rstrip("/")
        self.wrong: list[str] = []
        page.set_default_timeout(1000 * WAIT_SECONDS)
        page.on("console", self._check_message)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", self._check_request)

    def _check_message(self, message: Any) -> None:
        if message.type == "error":
            self.wrong.append(message.text)

    def _check_request(self, request: Any) -> None:
        place = urlsplit(request.url)
        if place.scheme not in ("data", "blob") and place.netloc != urlsplit(self.address).netloc:
            self.wrong.append(f"a request to {request.url}")

    def open(self, path: str) -> Any:
        """Go to a page, and wait until it is connected."""
        self.page.goto(self.address + path)
        self.page.wait_for_function("() => window.socket && window.socket.connected")
        return self.page

    def chart(self, title: str) -> Any:
        """The points that a chart shows now: a list for each of its lines."""
        option = self._charts().get(title)
        return option and [series["data"] for series in option["series"]]

    def _charts(self) -> dict[str, Any]:
        """The options of ECharts by the title of each chart."""
        options = self.page.evaluate(
            """() => [...document.querySelectorAll('section .nicegui-echart')]
                .map(chart => getElement(Number(chart.id.slice(1))).chart?.getOption())
                .filter(option => option?.title).map(({title, series}) => ({title: title[0].text, series}))"""
        )
        return {option["title"].replace("\n", " "): option for option in options}

    def tool(self, title: str, place: int) -> None:
        """Click a tool of a chart, counted from the right."""
        self.page.wait_for_timeout(500)  # a chart that has just come is drawn, and takes its height
        box = self.page.locator(f'section [aria-label*="{title}"]').first.bounding_box()
        x, y = box["x"] + box["width"] - 9 - 23.5 * place, box["y"] + 8
        self.page.mouse.move(x, y)
        self.page.wait_for_timeout(500)  # under the pointer, ECharts draws a tool anew
        self.page.mouse.click(x, y)

    def wait_for_chart(self, title: str) -> Any:
        self.wait_until(lambda: self.chart(title) is not None)
        return self.chart(title)

    def wait_until(self, condition: Any, seconds: float = WAIT_SECONDS) -> None:
        """Wait until a function returns something true."""
        for _ in range(int(10 * seconds)):
            if condition():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"it takes too long: {self.page.url}")


@contextmanager
def running_browser() -> Iterator[Any]:
    """A headless browser. Starting it takes seconds, so the tests of a module share one."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # optional

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@contextmanager
def visiting(browser: Any, address: str, width: int = 1280, scheme: str = "light") -> Iterator[Visitor]:
    """A new page, without the cookies of others. At the end, nothing may have been wrong."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    visitor = Visitor(context.new_page(), address)
    yield visitor
    context.close()
    assert not visitor.wrong, visitor.wrong
