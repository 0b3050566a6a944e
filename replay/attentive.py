"""Attentive experience replay (Sun et al., AAAI 2020): what resembles where the agents are now."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from options.replay_options import ReplaySpec
from replay.newest_states import NewestStates
from replay.ranked import RankedReplay
from replay.selection_rules import lowest
from replay.storage import Storage
from replay.unroll_layout import Rows, UnrollLayout

# Candidates [m, nbytes] and the agents' newest states [E, S*C, H, W] → how far each candidate is from them, [m].
Nearness = Callable[[Rows, NDArray[np.uint8]], NDArray[np.float64]]


class AttentiveReplay(RankedReplay):
    """Keeps the candidates that are nearest to the newest state of some environment."""

    name = "attentive"

    def __init__(
        self,
        storage: Storage,
        share: int,
        fill_before_draw: int,
        rng: np.random.Generator,
        options: ReplaySpec,
        planned_updates: int,
        layout: UnrollLayout,
        nearness: Nearness,
    ) -> None:
        super().__init__(storage, share, fill_before_draw, rng, options, planned_updates, layout.nbytes, lowest)
        self._nearness = nearness
        self._newest = NewestStates(layout)

    def add(self, row: Rows) -> None:
        super().add(row)
        self._newest.note(row)

    def _distances(self, rows: Rows) -> NDArray[np.float64]:
        return self._nearness(rows, self._newest.stacks())

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "newest": self._newest.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._newest.load_state_dict(state["newest"])
