"""Unrolls of games that do not wait: they stay open until it is known what all of their decisions led to."""

from collections import deque
from typing import Any

import numpy as np

from option_flags import EnvironmentOptions
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.rollout import Unrolls
from wrappers.atari import REWARD_CLIPPING
from wrappers.timeline import Effect

NO_DECISION = -1
NOT_KNOWN = 2  # of a step in an open unroll, whether it is valid


class OpenUnrolls:
    """The open unrolls of E games, oldest first, over the same decisions. Each decision is a step.

    A step is invalid if its action was not played for a single frame. The end of an episode is stored with the newest
    of its decisions that had an effect, so that no value crosses it. With a real clock, a decision may take effect
    after one that was made later. Both keep their place, so rewards of two neighbouring steps can be in another order
    than they came in; none is lost or counted twice. Rewards before the first action of an episode belong to no step.
    """

    def __init__(self, layout: UnrollLayout, options: EnvironmentOptions, games: int) -> None:
        self._layout = layout
        self._clip = REWARD_CLIPPING[options.reward_clipping_method]
        self._hold = options.skipped_frames
        self._newest = [NO_DECISION] * games  # of each game, the newest decision of the episode that had an effect
        self.first = 0  # decision of the oldest unroll
        self._unrolls: deque[tuple[Rows, Unrolls]] = deque()  # rows [E, nbytes], and their fields in the same memory

    @property
    def end(self) -> int:
        """The decision with which the next unroll begins."""
        return self.first + len(self._unrolls) * self._layout.unroll_length

    def begin(self) -> Unrolls:
        """Open an unroll of each game, and return their fields."""
        unrolls = self._open(np.zeros((len(self._newest), self._layout.nbytes), np.uint8))
        unrolls["valid"][:] = NOT_KNOWN
        return unrolls

    def at(self, decision: int) -> tuple[Unrolls, int]:
        """The unrolls of a decision, and its step in them."""
        index, t = divmod(decision - self.first, self._layout.unroll_length)
        return self._unrolls[index][1], t

    def note(self, game: int, effect: Effect, final_value: float) -> None:
        """Write what a decision led to. `final_value` is that of the last state if a time limit has cut it off."""
        assert effect.decision is not None
        unroll, t = self.at(effect.decision)
        unroll["valid"][game, t] = effect.frames > 0
        if effect.frames:
            unroll["rewards"][game, t] = self._clip(effect.reward)
            unroll["durations"][game, t] = effect.frames / self._hold
            unroll["ages"][game, t] = effect.age
            self._newest[game] = max(self._newest[game], effect.decision)
        if effect.ended:
            unroll, t = self.at(self._newest[game])
            unroll["ended"][game, t] = 1
            unroll["bootstraps"][game, t] = final_value
            self._newest[game] = NO_DECISION

    def forget(self, game: int) -> None:
        """What the decisions of a game led to will never be known."""
        for _, unrolls in self._unrolls:
            valid = unrolls["valid"][game]
            valid[valid == NOT_KNOWN] = 0

    def take(self) -> Rows | None:
        """The oldest unrolls, if all of their steps are known."""
        if not self._unrolls or (self._unrolls[0][1]["valid"] == NOT_KNOWN).any():
            return None
        self.first += self._layout.unroll_length
        return self._unrolls.popleft()[0]

    def snapshot(self) -> dict[str, Any]:
        return {"first": self.first, "unrolls": [rows.tobytes() for rows, _ in self._unrolls]}

    def restore(self, snapshot: dict[str, Any]) -> None:
        self.first = snapshot["first"]
        self._unrolls.clear()
        for content in snapshot["unrolls"]:
            self._open(np.frombuffer(content, np.uint8).reshape(len(self._newest), -1).copy())

    def _open(self, rows: Rows) -> Unrolls:
        unrolls = self._layout.arrays(rows)
        self._unrolls.append((rows, unrolls))
        return unrolls
