"""The returns and lengths of complete games."""

from typing import Any, NamedTuple

import gymnasium

from wrappers.emulator import AtariWrapper, Frame


class FinishedGame(NamedTuple):
    """The unclipped return of a game that ended or was cut off, and its length in agent steps."""

    return_: float
    length: int


class ScoreKeeper(AtariWrapper):
    """Sum the rewards and agent steps of each game, including the steps that outer wrappers make during a reset.

    It is inside EpisodicLife and ClipReward, so it counts complete games and unclipped rewards. The no-op frames of a
    random start are before the first agent step and do not count: the agent has no influence on them. Published scores
    leave them out too (dqn_zoo, OpenAI Baselines). A game that is reset before its end is dropped.

    In a game that is played frame by frame, `frames_per_step` frames count as one agent step.
    """

    def __init__(self, env: gymnasium.Env[Frame, int], frames_per_step: int = 1) -> None:
        super().__init__(env)
        self._frames_per_step = frames_per_step
        self._return = 0.0
        self._length = 0
        self._finished: list[FinishedGame] = []

    def take_finished_games(self) -> list[FinishedGame]:
        """The games that ended since the last call, oldest first."""
        finished, self._finished = self._finished, []
        return finished

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        self._return, self._length = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: int) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        reward = float(reward)
        self._return += reward
        self._length += 1
        if terminated or truncated:
            self._finished.append(FinishedGame(self._return, -(-self._length // self._frames_per_step)))
        return observation, reward, terminated, truncated, info

    def snapshot(self) -> dict[str, Any]:
        return {
            "return": self._return,
            "length": self._length,
            "finished": [list(game) for game in self._finished],
            "inner": self.env.get_wrapper_attr("snapshot")(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._return, self._length = state["return"], state["length"]
        self._finished = [FinishedGame(float(return_), int(length)) for return_, length in state["finished"]]
        self.env.get_wrapper_attr("restore")(state["inner"])
