"""One browser for all tests of pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.browser import running_browser


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with running_browser() as browser:
        yield browser
