"""A small environment whose observations and actions are of any kind, for tests of what handles them all."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from replay.unroll_layout import ActionKind
from wrappers.environment import NO_FRAME, NO_VECTOR, EnvironmentSpec, FinishedGame, Observation, Watch

SIZE, VECTOR = 12, 5
SIZES: dict[ActionKind, tuple[int, ...]] = {"discrete": (3,), "product": (3, 2, 4), "gaussian": (0, 0)}


class ScriptedSpaces(gymnasium.Env[Observation, Any]):
    """Each observation is unique. An action is rewarded for how near it is to one that the observation names.

    Episodes are cut off after 4 steps and end after 6, in turns.
    """

    def __init__(
        self,
        seed: int,
        pictures: bool,
        vectors: bool,
        kind: ActionKind,
        sizes: tuple[int, ...],
        watch: Watch = lambda picture, score: None,
    ) -> None:
        self._watch = watch
        self._pictures, self._vectors, self._sizes = pictures, vectors, sizes
        self.spec_for_agent = EnvironmentSpec(
            frame_shape=(1, SIZE, SIZE) if pictures else (0, 0, 0),
            vector_size=VECTOR if vectors else 0,
            one_hot_size=2 if vectors else 0,
            action_kind=kind,
            action_sizes=sizes,
            can_snapshot=False,
            vector_dtype="int16",
        )
        self.observation_space = gymnasium.spaces.Tuple([])  # type: ignore[assignment]
        self.action_space = gymnasium.spaces.Discrete(1)
        self.taken: list[Any] = []  # the actions
        self._episode = -1
        self._finished: list[FinishedGame] = []
        super().reset(seed=seed)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode += 1
        self._step, self._return = 0, 0.0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.taken.append(action)
        wanted = np.resize([self._target, 1 - self._target], len(self._sizes))
        reward = -float(np.abs(np.clip(action, -1, 1) - wanted).mean())
        self._step += 1
        self._return += reward
        truncated = self._episode % 2 == 0 and self._step == 4
        terminated = not truncated and self._step == 6
        if truncated or terminated:
            self._finished.append(FinishedGame(self._return, self._step))
        return self._observation(), reward, terminated, truncated, {}

    def take_finished_games(self) -> list[FinishedGame]:
        finished, self._finished = self._finished, []
        return finished

    def render(self) -> NDArray[np.uint8]:
        return np.full((40, 40, 3), 50 + 100 * self._target, np.uint8)

    def _observation(self) -> Observation:
        self._target = int(self.np_random.integers(2))
        self._watch(self.render(), self._return)
        frame = np.zeros((1, SIZE, SIZE), np.uint8)
        frame[0, :6] = 255 * self._target
        frame[0, 11] = self._episode % 256
        frame[0, 10] = self._step
        vector = np.array([self._step, self._episode, self._target, self._target, 1 - self._target], np.float32)
        return Observation(frame if self._pictures else NO_FRAME, vector if self._vectors else NO_VECTOR)


class MakeScripted:
    """Makes the environment; it can be pickled for worker processes."""

    def __init__(
        self,
        pictures: bool,
        vectors: bool,
        kind: ActionKind,
        sizes: tuple[int, ...] | None = None,
    ) -> None:
        self._arguments = pictures, vectors, kind, SIZES[kind] if sizes is None else sizes

    def __call__(self, options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> ScriptedSpaces:
        return ScriptedSpaces(seed, *self._arguments, *([] if watch is None else [watch]))
