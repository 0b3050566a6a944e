"""Complete games, played in parallel in one process with one network."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor, Decision
from option_flags import EnvironmentOptions
from options.presets import is_noframeskip
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs
from workers.randomness import stream_of
from workers.rollout import each_action
from wrappers.environment import MakeEnvironment, as_observation

# The batch size of a forward pass, by the smallest number of games in the test. Unused slots cost as much as used ones,
# and the games are spread over processes, so there are fewer slots than games. In batches of these sizes, the output
# for a game depends on the size, but neither on the other games nor on the game's slot. In other sizes, such as 3 or 6,
# its last bits depend on the slot.
SLOTS = {1: 1, 8: 4, 32: 8, 64: 16, 128: 32}

IDLE = -1  # age of an action that was not chosen from any screen


class GameLog(NamedTuple):
    """Every step of the agent in one game: enough to play the game again. In real time, every frame is a step."""

    actions: NDArray[Any]  # [steps, ...]
    values: NDArray[np.float32]  # [steps], the network's value estimates
    ages: NDArray[np.int32] | None = None  # [steps], in real time: frames since the screen behind the action, or IDLE


class GameResult(NamedTuple):
    game: int
    return_: float  # unclipped
    length: int  # agent steps, including those that wrappers make
    cut_off: bool  # by max_game_frames, or by a time limit of the environment
    log: GameLog | None


def slots_for(games: int) -> int:
    """How many games each process of a test plays at once. The number of processes must not matter: see SLOTS."""
    return max(slots for least, slots in SLOTS.items() if least <= games)


def evaluation_options(options: EnvironmentOptions) -> EnvironmentOptions:
    """The options of training, but an episode is a complete game, not one life of an Atari game.

    Rewards stay clipped, because an LSTM is trained on clipped rewards. Returns are counted before the clipping.
    """
    return replace(options, episodic_life=False, fire_on_life_loss=is_noframeskip(options.env))


def game_streams(seed: Sequence[int], game: int) -> tuple[int, np.random.Generator]:
    """The seed of a game's environment, and the random generator that samples its actions."""
    environment_stream, action_stream = stream_of("game", *seed, game).spawn(2)
    return int(environment_stream.generate_state(1)[0] >> 1), np.random.default_rng(action_stream)


@dataclass(frozen=True, kw_only=True)
class GameSeries:
    """Games of one policy: the number of a game determines its start, and the random numbers of its actions."""

    make_environment: MakeEnvironment
    environment: EnvironmentOptions
    seed: tuple[int, ...]
    slots: int = 1  # games that a process plays at once, from `slots_for`: the same in all processes of a test
    greedy: bool = False  # the likeliest action is taken; otherwise it is drawn
    logged: int = 0  # only games with a lower number keep a log


@dataclass
class RunningGame:
    """A game that is being played, and its log if it keeps one."""

    game: int
    rng: np.random.Generator  # samples the actions
    actions: list[Any] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    ages: list[int] = field(default_factory=list)  # in real time

    def result(self, finished: tuple[float, int], cut_off: bool, action_type: np.dtype[Any]) -> GameResult:
        log = None
        if self.actions:
            ages = np.array(self.ages, np.int32) if self.ages else None
            log = GameLog(np.array(self.actions, action_type), np.array(self.values, np.float32), ages)
        return GameResult(self.game, *finished, cut_off, log)


class ParallelGames:
    """Up to as many games at once as the series has slots. One forward pass chooses the actions of all of them.

    So a game does not depend on the games beside it.
    """

    def __init__(
        self, series: GameSeries, actor: Actor, layout: UnrollLayout, alive: Callable[[], None] = lambda: None
    ) -> None:
        """`alive` is called whenever code of an environment has returned."""
        self._series = series
        self._actor = actor
        self._alive = alive
        self._environments: list[gymnasium.Env[Any, Any]] = []
        self._slots: list[RunningGame | None] = [None] * series.slots
        self._action_type = np.dtype(layout.action_dtype)
        self.inputs = PolicyInputs.at_start(series.slots, layout)  # of the next decision
        self.decision: Decision  # the latest
        self._state, self._uniforms = self.inputs.state, self.inputs.uniforms.numpy()
        # Views of the same memory: numpy writes single numbers much faster than torch.
        self._previous_actions = self._state.previous_actions.numpy()
        self._previous_rewards = self._state.previous_rewards.numpy()
        self._pictures = self.inputs.pictures

    @property
    def running(self) -> int:
        """How many games are running."""
        return sum(slot is not None for slot in self._slots)

    @torch.inference_mode()
    def start(self, game: int) -> None:
        """Start a game in a free slot."""
        e = self._slots.index(None)
        if e == len(self._environments):
            self._environments.append(self._series.make_environment(self._series.environment, 0))
            self._alive()
        environment_seed, rng = game_streams(self._series.seed, game)
        seen, _ = self._environments[e].reset(seed=environment_seed)
        self.inputs.show(e, as_observation(seen), starts=True)
        self._alive()
        self._take_finished_game(e)  # drop a game that ended during the reset
        self._state.restart(e)
        self._slots[e] = RunningGame(game, rng)

    @torch.inference_mode()
    def step(self) -> list[GameResult]:
        """Make one agent step in every running game. Returns the games that ended."""
        for e, running in enumerate(self._slots):
            self._uniforms[e] = running.rng.random(self._uniforms.shape[1:]) if running else 0.0
        inputs = self.inputs
        self.decision = decision = self._actor.act(self._pictures, self._state, inputs.uniforms, inputs.vectors)
        actions = self._actor.distribution.most_likely(decision.logits) if self._series.greedy else decision.actions
        self._state.lstm_state = decision.lstm_state
        choices = zip(self._slots, each_action(actions), decision.values.tolist(), strict=True)
        results = []
        for e, (running, action, value) in enumerate(choices):
            if running is not None and (result := self._step_game(e, running, action, value)):
                results.append(result)
        return results

    def _step_game(self, e: int, running: RunningGame, action: Any, value: float) -> GameResult | None:
        observation, reward, terminated, truncated, _ = self._environments[e].step(action)
        self._alive()
        self.inputs.show(e, as_observation(observation), starts=False)
        self._previous_actions[e] = action
        self._previous_rewards[e] = reward
        if running.game < self._series.logged:
            running.actions.append(action)
            running.values.append(value)
        if not (terminated or truncated):
            return None
        self._slots[e] = None
        return running.result(self._take_finished_game(e), truncated and not terminated, self._action_type)

    def _take_finished_game(self, e: int) -> tuple[float, int]:
        finished = self._environments[e].get_wrapper_attr("take_finished_games")()
        return finished[-1][:2] if finished else (0.0, 0)
