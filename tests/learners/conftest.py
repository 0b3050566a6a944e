"""The process from which the learners of tests are forked ends with the last test."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.learners.groups import SERVER


@pytest.fixture(autouse=True, scope="session")
def server_ends() -> Iterator[None]:
    with closing(SERVER):
        yield
