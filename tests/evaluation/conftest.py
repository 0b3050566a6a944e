"""How the players and films of these tests are started."""

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from processes.child import Child, start_child
from processes.fork_server import ForkServer
from processes.pool import ChildPool

Start = Callable[[Any, str], Child]


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Starts a process in a hundredth of a second, not in the three of torch."""
    modules = ["evaluation.players", "tests.catch", "tests.wrappers.hand_written"]
    with closing(ForkServer(modules)) as server:
        yield partial(start_child, launch=server)


@pytest.fixture(autouse=True)
def _forked_players(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluation.score_checkpoint.ChildPool", partial(ChildPool, start=start))
