"""Whole games, played side by side in one process; what becomes of each depends on the seed and its number only."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor, ActorState
from agents.categorical import most_likely
from evaluation.score_statistics import summarise
from option_flags import EnvironmentOptions
from replay.unroll_layout import UnrollLayout
from reports.human_scores import human_normalised
from workers.observations import as_batch, observation_shape, put_stack
from workers.random_streams import stream_of
from wrappers.environment_types import MakeEnvironment

# A network's outputs for one game do not depend on the others in the batch, but on the size of the batch they do: it is
# the same everywhere, however few games there are.
SEATS = 32


class GameLog(NamedTuple):
    """What the agent did in a game, step by step: enough to show it again."""

    actions: NDArray[np.uint8]  # [steps]
    values: NDArray[np.float32]  # [steps], what the agent expected


class GameResult(NamedTuple):
    game: int
    return_: float  # unclipped
    length: int  # agent steps, those that wrappers made included
    cut_off: bool  # by the limit of frames
    log: GameLog | None


def as_tested(options: EnvironmentOptions) -> EnvironmentOptions:
    """Whole games, but for these options as the policy knows them.

    Rewards stay clipped: an LSTM has only ever seen such ones, and returns are counted inside of the clipping.
    """
    return replace(options, episodic_life=False, fire_on_life_loss=True)


def figures_of(results: Sequence[GameResult], env: str) -> dict[str, Any]:
    """What some games come to, by the names that it has in files."""
    summary = summarise([result.return_ for result in results])
    return {
        "cut_off": sum(result.cut_off for result in results),
        "return_mean": summary.mean,
        "return_mean_95": summary.interval,
        "return_median": summary.median,
        "return_std": summary.std,
        "return_min": summary.min,
        "return_max": summary.max,
        "human_normalised": human_normalised(env, summary.mean),
        "length_mean": float(np.mean([result.length for result in results])),
    }


def game_streams(seed: Sequence[int], game: int) -> tuple[int, np.random.Generator]:
    """The seed of a game's environment, and the numbers that choose its actions."""
    of_game, of_actions = stream_of("game", *seed, game).spawn(2)
    return int(of_game.generate_state(1)[0] >> 1), np.random.default_rng(of_actions)


@dataclass
class _GameUnderWay:
    game: int
    uniforms: np.random.Generator
    actions: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class Games:
    """A fixed number of seats; a game begins on a free one, and one forward pass chooses the actions on all of them."""

    def __init__(
        self,
        make_environment: MakeEnvironment,
        options: EnvironmentOptions,
        actor: Actor,
        layout: UnrollLayout,
        seed: Sequence[int],
        *,
        greedy: bool,
        logged: int,  # the games below this number keep a log
    ) -> None:
        self._make_environment = make_environment
        self._options = options
        self._actor = actor
        self._seed = seed
        self._greedy = greedy
        self._logged = logged
        self._environments: list[gymnasium.Env[NDArray[np.uint8], Any]] = []
        self._seats: list[_GameUnderWay | None] = [None] * SEATS
        self._state = ActorState.at_start(SEATS, layout.lstm_size)
        # The same memory, which numpy writes single numbers to in a fraction of torch's time.
        self._previous_actions = self._state.previous_actions.numpy()
        self._previous_rewards = self._state.previous_rewards.numpy()
        self._observations = np.zeros((SEATS, *observation_shape(layout)), np.uint8)
        self._network_view = as_batch(torch.from_numpy(self._observations))

    @property
    def under_way(self) -> int:
        return sum(seat is not None for seat in self._seats)

    @torch.inference_mode()
    def begin(self, game: int) -> None:
        """Begin a game on a free seat."""
        e = self._seats.index(None)
        if e == len(self._environments):
            self._environments.append(self._make_environment(self._options, 0))
        environment_seed, uniforms = game_streams(self._seed, game)
        put_stack(self._observations[e], self._environments[e].reset(seed=environment_seed)[0])
        self._finished_game(e)  # what a reset may have ended is not this game
        self._state.restart(e)
        self._seats[e] = _GameUnderWay(game, uniforms)

    @torch.inference_mode()
    def step(self) -> list[GameResult]:
        """One agent step in every game under way; return those that it ended."""
        uniforms = [seat.uniforms.random() if seat else 0.0 for seat in self._seats]
        decision = self._actor.act(self._network_view, self._state, torch.tensor(uniforms, dtype=torch.float64))
        actions = most_likely(decision.logits) if self._greedy else decision.actions
        self._state.lstm_state = decision.lstm_state
        choices = zip(self._seats, actions.tolist(), decision.values.tolist(), strict=True)
        results = []
        for e, (seat, action, value) in enumerate(choices):
            if seat is not None and (result := self._step(e, seat, action, value)):
                results.append(result)
        return results

    def _step(self, e: int, seat: _GameUnderWay, action: int, value: float) -> GameResult | None:
        observation, reward, terminated, truncated, _ = self._environments[e].step(action)
        put_stack(self._observations[e], observation)
        self._previous_actions[e] = action
        self._previous_rewards[e] = reward
        if seat.game < self._logged:
            seat.actions.append(action)
            seat.values.append(value)
        if not (terminated or truncated):
            return None
        self._seats[e] = None
        game_return, length = self._finished_game(e)
        log = GameLog(np.array(seat.actions, np.uint8), np.array(seat.values, np.float32)) if seat.actions else None
        return GameResult(seat.game, game_return, length, truncated and not terminated, log)

    def _finished_game(self, e: int) -> tuple[float, int]:
        finished: list[tuple[float, int]] = self._environments[e].get_wrapper_attr("take_finished_games")()
        return finished[-1] if finished else (0.0, 0)
