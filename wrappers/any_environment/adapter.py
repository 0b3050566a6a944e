"""Any environment of Gymnasium, with the observations and actions of the agent."""

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from option_flags import EnvironmentOptions
from options.environment_options import GAME_COLUMNS, GAME_NUMBER
from options.rules import UsageError
from wrappers.any_environment.actions import actions_for
from wrappers.any_environment.faults import FAILURES, EnvironmentFaultError, ValueFaultError
from wrappers.any_environment.observations import ObservationReader
from wrappers.any_environment.pictures import colour_picture
from wrappers.atari import REWARD_CLIPPING
from wrappers.environment import FAILED_RESETS, USUAL_RATE, EnvironmentSpec, FinishedGame, Observation, Watch, own_rate
from wrappers.timeline import DelayedTimeline, Turns

ACTION_MASK, ACTION_MASKS = "action_mask", "action_masks"  # the entry of an `info`, and the method
MOST_SAID, SAID_NAME = 16, re.compile(GAME_NUMBER)  # numbers that are said of a game, and their names
OF_GYMNASIUM = ("r", "l", "t")  # RecordEpisodeStatistics: return, length, and seconds
LARGEST_REWARD = 1e30  # with room for the sum of an episode in float32
STICKY, IDLE = 1, 2  # numbers of the streams of a seed that draw sticky actions, and random idle actions
MOST_RESETS = 4  # tries


class AnyEnvironment(gymnasium.Env[Observation, Any]):
    """An environment with any supported spaces, as the agent sees it.

    A step of the agent is `frames_per_step` steps of the environment, whose actions its `timeline` says; its reward is
    their sum, clipped. With a real clock, it is one step of the environment, and its reward is not clipped. The first
    reset seeds the environment, and later ones without a seed go on with its random generators. What the environment's
    code raises, and values that its spaces do not allow, become an EnvironmentFaultError. A reset that fails is tried
    again.

    An environment with methods `snapshot`, which returns plain values and bytes, and `restore` can be saved in the
    middle of a game.
    """

    def __init__(
        self, env: gymnasium.Env[Any, Any], options: EnvironmentOptions, seed: int, watch: Watch | None = None
    ) -> None:
        self.env = env
        self._watch = watch  # is called with a picture after every reset and every step of the environment
        self.metadata = env.metadata
        self._id = options.env
        self._waits = options.interaction == "turns"
        self._saved = _what_can_be_saved(env, options)
        # Environments that users write may lack a space.
        self._read = ObservationReader(getattr(env, "observation_space", None), options)
        actions = actions_for(getattr(env, "action_space", None))
        self._actions, self._to_environment = actions, actions.to_environment
        self.spec_for_agent = EnvironmentSpec(
            frame_shape=self._read.frame_shape,
            vector_size=self._read.vector_size,
            one_hot_size=self._read.one_hot_size,
            action_kind=actions.kind,
            action_sizes=actions.sizes,
            action_names=actions.names,
            # The state of delayed actions that are arrays is no plain value.
            can_snapshot=self._saved is not None and (self._waits or actions.kind == "discrete"),
            vector_dtype=self._read.vector_dtype,
            tells_of_games=True,
            frames_per_second=own_rate(self) or USUAL_RATE,
        )
        self.may_have_masks = options.action_masks and actions.kind in ("discrete", "product")
        self._has_masks: bool | None = None  # not known before the first reset
        self._asks_for_masks = self.may_have_masks and env.has_wrapper_attr(ACTION_MASKS)
        self.action_space = actions.space
        self._seed: int | None = seed
        self._period = options.frames_per_step
        self._steps = range(1 if options.in_real_time else self._period)
        self.timeline: Turns | DelayedTimeline = Turns()
        if options.has_delay:
            self.timeline = DelayedTimeline(self.spec_for_agent, options, count_lives=lambda: 0)
        self._frame_limit = options.max_game_frames
        if self._saved is not None and env.spec is not None and env.spec.max_episode_steps is not None:
            # Gymnasium's own time limit does not know at which step a restored game is.
            self._frame_limit = min(self._frame_limit, env.spec.max_episode_steps)
        self._clip = REWARD_CLIPPING["none" if options.in_real_time else options.reward_clipping_method]
        self._named_info = options.episode_info.split(",") if options.episode_info else []
        self._sticky = options.repeat_action_probability
        self._sticky_draws = _stream(seed, STICKY)
        self.np_random = _stream(seed, IDLE)  # random idle actions
        self._latest: Any = None  # what the environment got last in this game
        self._episode_steps = 0  # of the environment
        self._steps_until_cut = 0  # 0: the episode is not cut
        self._return = 0.0
        self._finished: list[FinishedGame] = []

    @property
    def time_limit(self) -> int:
        """Steps of the agent in the longest possible game."""
        limit = self._frame_limit
        if self.env.spec is not None and self.env.spec.max_episode_steps is not None:
            limit = min(limit, self.env.spec.max_episode_steps)
        return -(-limit // len(self._steps))

    def cut_first_episode(self, generator: np.random.Generator) -> None:
        """Cut the first episode after a random number of steps, up to `time_limit`; the later ones stay whole.

        Where every episode lasts as long as the time limit, environments that start together stay together: all unrolls
        of a batch are from the same part of an episode, and what the policy does in the other parts is forgotten
        meanwhile. The cut is a truncation, and no finished game.
        """
        self._steps_until_cut = int(generator.integers(1, self.time_limit, endpoint=True))

    def take_finished_games(self) -> list[FinishedGame]:
        """The games that ended since the last call, oldest first, with unclipped returns."""
        finished, self._finished = self._finished, []
        return finished

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        if seed is not None:
            self._sticky_draws = _stream(seed, STICKY)
            self.np_random = _stream(seed, IDLE)
        self._episode_steps = 0
        self._return = 0.0
        self._latest = None
        self.timeline.begin()
        failed: list[str] = []
        while True:
            try:
                observation = self._reset_once(self._seed if seed is None else seed, options)
            except EnvironmentFaultError as fault:
                failed.append(fault.report.rstrip())
                if len(failed) == MOST_RESETS:
                    raise
            else:
                break
        if seed is None:
            self._seed = None
        return observation, {FAILED_RESETS: failed} if failed else {}

    def _reset_once(self, seed: int | None, options: dict[str, Any] | None) -> Observation:
        try:
            result = self.env.reset(seed=seed, options=options)
        except FAILURES as error:
            raise self._raised("reset", error) from error
        if not isinstance(result, tuple) or len(result) != 2:
            raise self._fault(f"reset returned {_count(result)}; observation and info would be right")
        self._show()
        return self._observe(*result)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        total = 0.0
        self.timeline.decide(action)
        for _ in self._steps:
            chosen = self._to_environment(self.timeline.next_action(self.np_random))
            if self._latest is not None and self._sticky and self._sticky_draws.random() < self._sticky:
                played = self._latest
            else:
                played = self._latest = chosen
            seen, reward, terminated, truncated, info = self._step_once(played)
            self.timeline.played(reward)
            total += reward
            if terminated or truncated:
                break
        observation = self._observe(seen, info, is_over=terminated or truncated)
        if terminated or truncated:
            length = -(-self._episode_steps // self._period)
            self._finished.append(FinishedGame(self._return, length, said_of_game(info, self._named_info)))
        is_cut = self._steps_until_cut == 1
        self._steps_until_cut = 0 if terminated or truncated else max(0, self._steps_until_cut - 1)
        return observation, self._clip(total), terminated, truncated or is_cut, info

    def _step_once(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """One step of the environment."""
        self._episode_steps += 1
        try:
            # A copy, because the environment's code may change an array in place, and it may get this one again.
            result = self.env.step(action.copy() if isinstance(action, np.ndarray) else deepcopy(action))
        except FAILURES as error:
            raise self._raised("step", error) from error
        if not isinstance(result, tuple) or len(result) != 5:
            right = "observation, reward, terminated, truncated and info would be right"
            raise self._fault(f"step returned {_count(result)}; {right}")
        seen, reward, terminated, truncated, info = result
        try:
            number = float(reward)
        except (TypeError, ValueError):
            number = math.nan
        if not abs(number) <= LARGEST_REWARD:
            raise self._fault(f"the reward is {reward!r:.60}; a number of at most {LARGEST_REWARD:g} would be right")
        self._return += number
        self._show()
        return seen, number, bool(terminated), bool(truncated) or self._episode_steps >= self._frame_limit, info

    def snapshot(self) -> dict[str, Any]:
        """The complete state of the game, in plain values and bytes. Only where `can_snapshot` says so."""
        return {
            "game": self._saved.snapshot(),
            "episode": [self._episode_steps, self._return, self._steps_until_cut],
            "timeline": self.timeline.state(),
            "finished": [list(game) for game in self._finished],
            "random": self.np_random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on exactly where the snapshot was taken. A reset must have come before."""
        self._saved.restore(state["game"])
        self._episode_steps, self._return, self._steps_until_cut = state["episode"]
        self.timeline.restore(state["timeline"])
        self._finished = [FinishedGame(*game) for game in state["finished"]]
        self.np_random.bit_generator.state = state["random"]

    def _show(self) -> None:
        if self._watch is not None:
            try:
                self._watch(colour_picture(self.env.render()), self._return)
            except FAILURES as error:
                raise self._raised("render", error) from error

    def close(self) -> None:
        # Nothing is lost if this fails, as it may in an environment that was made and never reset.
        with suppress(*FAILURES):
            self.env.close()

    def _observe(self, seen: Any, info: Any, is_over: bool = False) -> Observation:
        try:
            frame, vector = self._read(seen)
            self._newest = Observation(frame, self._with_mask(vector, info, is_over) if self.may_have_masks else vector)
        except ValueFaultError as error:
            raise self._fault(str(error)) from None
        return self._newest

    def look(self) -> Observation:
        """The newest observation."""
        return self._newest

    def _with_mask(self, vector: NDArray[np.float32], info: Any, is_over: bool) -> NDArray[np.float32]:
        """The vector with the action mask after it, if there are masks."""
        given = info.get(ACTION_MASK) if isinstance(info, dict) else None
        if given is None and self._asks_for_masks and not is_over:
            try:
                given = self.env.get_wrapper_attr(ACTION_MASKS)()
            except FAILURES as error:
                raise self._raised(ACTION_MASKS, error) from error
        if self._has_masks is None:
            self._has_masks = given is not None
            if self._has_masks:
                self._begin_masks()
        if is_over and self._has_masks:  # no action follows, so the mask may leave none
            given = np.ones(self.spec_for_agent.mask_size)
        if self._has_masks != (given is not None):
            found, before = ("no action mask", "one") if given is None else ("an action mask", "none")
            raise ValueFaultError(f"there is {found}, and the first reset gave {before}")
        return vector if given is None else np.concatenate([vector, self._actions.read_mask(given)])

    def _begin_masks(self) -> None:
        """The first reset has given an action mask."""
        if not self._waits:
            raise UsageError(
                f"--interaction plays actions later than they are chosen, when the action masks of --env={self._id} "
                "may forbid them; --interaction=turns, or --noaction_masks, would be right."
            )
        if self._period > 1 or self._sticky:
            flag, right = ("skipped_frames", 1) if self._period > 1 else ("repeat_action_probability", 0)
            raise UsageError(
                f"--{flag} repeats actions, which the action masks of --env={self._id} may forbid; --{flag}={right}, "
                "or --noaction_masks, would be right."
            )
        size = sum(self._actions.sizes)
        dtype = self.spec_for_agent.vector_dtype if self.spec_for_agent.vector_size else "uint8"
        self.spec_for_agent = replace(self.spec_for_agent, mask_size=size, vector_dtype=dtype)

    def _raised(self, method: str, error: BaseException) -> EnvironmentFaultError:
        return self._fault(f"{method} raised {type(error).__name__}: {error}")

    def _fault(self, what: str) -> EnvironmentFaultError:
        place = f"step {self._episode_steps} of a game" if self._episode_steps else "a reset"
        return EnvironmentFaultError(f"{self._id} has a fault in {place}: {what}.")


def _what_can_be_saved(env: gymnasium.Env[Any, Any], options: EnvironmentOptions) -> Any:
    """What has `snapshot` and `restore`: the user's wrapper, or the environment without one. None if nothing has."""
    if options.repeat_action_probability:
        return None  # the latest action is not saved
    inner = env.unwrapped if options.env_wrapper is None else env
    return inner if hasattr(inner, "snapshot") and hasattr(inner, "restore") else None


def said_of_game(info: Any, named: Sequence[str]) -> dict[str, float]:
    """The numbers in the last `info` of a game: the named ones, then others of it and of its entry "episode".

    A dot in a name leads into a nested entry.
    """
    if not isinstance(info, Mapping):
        return {}
    nested = info.get("episode")
    others = {**(nested if isinstance(nested, Mapping) else {}), **info}
    entries = [(name, _entry(info, name)) for name in named]
    entries += [(name, value) for name, value in others.items() if name not in OF_GYMNASIUM]
    said: dict[str, float] = {}
    for name, value in entries:
        if len(said) == MOST_SAID:
            break
        if name in GAME_COLUMNS:  # known without the environment's help
            continue
        if isinstance(name, str) and SAID_NAME.fullmatch(name) and isinstance(value, int | float | np.generic):
            with suppress(TypeError, ValueError, OverflowError):
                number = float(value)
                if math.isfinite(number):
                    said.setdefault(name, number)
    return said


def _entry(info: Any, name: str) -> Any:
    """An entry by its name, or by the names that lead to it; None if there is none."""
    for key in [name] if name in info else name.split("."):
        info = info.get(key) if isinstance(info, Mapping) else None
    return info


def _stream(seed: int, number: int) -> np.random.Generator:
    """Not that of `default_rng(seed)`, which the environment itself may draw from."""
    return np.random.default_rng([seed, number])


def _count(result: Any) -> str:
    return f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
