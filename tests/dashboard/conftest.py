"""The browser of the tests of pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.dashboard.browser import running_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One for all tests. It ends with them: while it runs, no other test of this process can use asyncio."""
    with running_browser() as browser:
        yield browser
