"""The tab of the live agent, without a browser: clicks while the first game starts."""

import asyncio
import threading
from pathlib import Path

import pytest

nicegui = pytest.importorskip("nicegui")

from dashboard.live import tab as tab_module  # noqa: E402
from dashboard.live.tab import LiveTab  # noqa: E402
from dashboard.results_folder import ResultsFolder  # noqa: E402


class SlowPlayer:
    """A player that starts when the test lets it."""

    def __init__(self, folder: Path, root: Path, chosen: str | None) -> None:
        self.closed = threading.Event()
        started.append(self)
        may_start.wait(60)

    def close(self) -> None:
        self.closed.set()


started: list[SlowPlayer] = []
may_start = threading.Event()


@pytest.mark.parametrize("leaves", [False, True])
def test_a_second_click_starts_nothing_and_who_leaves_meanwhile_leaves_no_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool
) -> None:
    started.clear()
    may_start.clear()
    monkeypatch.setattr(tab_module, "LivePlayer", SlowPlayer)

    async def visit() -> LiveTab:
        monkeypatch.setattr(nicegui.core, "loop", asyncio.get_running_loop())
        with nicegui.Client(nicegui.ui.page("/")):
            tab = LiveTab(ResultsFolder(tmp_path), tmp_path)
            clicks = [asyncio.create_task(tab._toggle()) for _ in range(2)]
            while not started:
                await asyncio.sleep(0.01)
            if leaves:
                tab.pause()
            may_start.set()
            await asyncio.gather(*clicks)
        return tab

    tab = asyncio.run(visit())
    (player,) = started
    if leaves:
        assert player.closed.wait(60) and tab._player is None
    else:
        assert not player.closed.is_set() and tab._player is player  # type: ignore[comparison-overlap]
    assert tab._button.enabled
