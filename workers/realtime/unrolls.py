"""Unrolls of games in real time, which stay open until all of their actions have had their effect."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.acting import Decision
from option_flags import EnvironmentOptions
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout, add_game_info
from workers.policy_inputs import PolicyInputs, as_stacks
from workers.realtime.player import Book, PlayedFrame, Register
from workers.rollout import SeededEnvironment
from wrappers.atari import reward_clipping

NO_DECISION = -1
NEVER = np.iinfo(np.int64).max  # larger than the version of any weights


@dataclass
class _Game:
    """What is known of a game, and not yet written."""

    acting: int = NO_DECISION  # the decision in effect
    reward: float = 0.0  # since it took effect, unclipped
    frames: int = 0
    age: int = 0
    newest: int = NO_DECISION  # the newest decision of this episode that had an effect
    played: int = 0  # frames since the newest decision started, and how many of them were idle, or missed
    idle: int = 0
    missed: int = 0
    episode_over: bool = False  # since the newest decision started


@dataclass
class _Unrolls:
    """Open unrolls of all games, over the same decisions."""

    rows: Rows  # [E, nbytes]
    fields: dict[str, NDArray[Any]]  # views of the rows
    open_steps: int  # steps of all games whose outcome is not known yet


class RealtimeUnrolls(Book):
    """A step for each decision, in the order of their starts. All E games have the same decisions.

    A stored step is the observation at the start of the decision, the policy that made it, and the rewards and frames
    from the moment that its action took effect to the moment that the next action did, whichever decision that was.

    * By rule `mean`, a decision may take effect after one that started later. Both keep their place in the order of
      their starts, so rewards of two neighbouring steps can be in another order than they came in. None is lost or
      counted twice.
    * A step is invalid if its action was not played for a single frame: the episode was over, its process died, or
      another action took effect before the next frame. Rewards before the first action of an episode belong to no step.
    * The end of an episode is stored with the newest of its decisions that had an effect, so that no value crosses it.
      At a time limit, the value of the final state is that of the newest decision of the episode.
    """

    def __init__(
        self,
        layout: UnrollLayout,
        options: EnvironmentOptions,
        environments: Sequence[SeededEnvironment],
    ) -> None:
        self._clip = reward_clipping(options.reward_clipping_method)
        self._layout = layout
        self._hold = options.skipped_frames
        self._environments = environments
        self._games = [_Game() for _ in environments]
        self._started = 0  # decisions so far
        self._version = 0  # of the weights of the decision that was made last
        self._newest_decided = NO_DECISION  # the newest decision that was made, and its value of each game
        self._values: list[float] = []
        self._first = 0  # the first decision of the oldest open unroll
        self._open: deque[_Unrolls] = deque()

    def take(self) -> Rows | None:
        """The oldest unrolls [E, nbytes] if all of their steps are known, else None."""
        length = self._layout.unroll_length
        if not self._open or self._open[0].open_steps or self._started <= self._first + length:
            return None
        oldest = self._open.popleft()
        versions = oldest.fields["weight_version"]
        versions[versions == NEVER] = self._version  # all of its decisions were lost
        self._first += length
        return oldest.rows

    def started(self, sequence: int, inputs: PolicyInputs, rewards: Sequence[float]) -> None:
        if sequence:
            self._finish_step(sequence - 1, inputs, rewards)
        if sequence % self._layout.unroll_length == 0:
            self._begin(inputs)
        self._started += 1

    def decided(self, sequence: int, decision: Decision, version: int, seconds: float) -> None:
        unroll, t = self._at(sequence)
        unroll["actions"][:, t] = decision.actions
        unroll["behaviour_logits"][:, t] = decision.logits
        unroll["values"][:, t] = decision.values
        unroll["features"][:, t] = decision.features
        unroll["inference_times"][:, t] = 1000 * seconds
        versions = unroll["weight_version"]
        np.minimum(versions, version, out=versions)
        self._version = version
        if sequence > self._newest_decided:
            self._newest_decided, self._values = sequence, decision.values.tolist()

    def left_out(self, sequence: int, games: Sequence[int]) -> None:
        self._unrolls_of(sequence).open_steps -= len(games)

    def took_effect(self, game: int, register: Register, age: int) -> None:
        self._complete(game)
        found = self._games[game]
        found.acting, found.age = register.sequence, age

    def played(self, game: int, frame: PlayedFrame, missed: bool) -> None:
        found = self._games[game]
        found.played += 1
        found.idle += frame.idle
        found.missed += missed
        if found.acting != NO_DECISION:
            found.reward += frame.reward
            found.frames += 1
        if frame.ended:
            self._complete(game)
            self._end_episode(game, frame.cut)
            self._environments[game].note_finished_games()

    def _complete(self, game: int) -> None:
        """Write what the action in effect led to, if there is one."""
        found = self._games[game]
        if found.acting == NO_DECISION:
            return
        if found.frames:
            unroll, t = self._at(found.acting)
            unroll["valid"][game, t] = 1
            unroll["rewards"][game, t] = self._clip(found.reward)
            unroll["durations"][game, t] = found.frames / self._hold
            unroll["ages"][game, t] = found.age
            found.newest = max(found.newest, found.acting)
        self._unrolls_of(found.acting).open_steps -= 1
        found.acting, found.reward, found.frames = NO_DECISION, 0.0, 0

    def _end_episode(self, game: int, cut: bool) -> None:
        found = self._games[game]
        if found.newest != NO_DECISION:
            unroll, t = self._at(found.newest)
            unroll["ended"][game, t] = 1
            if cut:
                # An action of this episode had an effect, so the newest decision is one of this episode, too.
                unroll["bootstraps"][game, t] = self._values[game]
        found.newest = NO_DECISION
        found.episode_over = True

    def _finish_step(self, sequence: int, inputs: PolicyInputs, rewards: Sequence[float]) -> None:
        """Write what is known of a step when the next decision starts, from the frame that this one sees."""
        unroll, t = self._at(sequence)
        if self._layout.has_pictures:
            unroll["frames"][:, self._layout.frame_stack + t] = as_stacks(inputs.observations, self._layout)[:, -1]
        if self._layout.vector_length:
            unroll["vectors"][:, t + 1] = inputs.vectors
        unroll["seen_rewards"][:, t] = [self._clip(reward) for reward in rewards]
        for e, game in enumerate(self._games):
            unroll["dones"][e, t] = game.episode_over
            unroll["played_frames"][e] += game.played
            unroll["idle_frames"][e] += game.idle
            unroll["missed_frames"][e] += game.missed
            game.episode_over, game.played, game.idle, game.missed = False, 0, 0, 0
            if self._environments[e].finished_games:
                finished = self._environments[e].finished_games.popleft()
                unroll["game_returns"][e, t], unroll["game_lengths"][e, t] = finished.return_, finished.length
                if self._layout.tells_of_games:
                    add_game_info(unroll["game_info"][e], finished.info)

    def _begin(self, inputs: PolicyInputs) -> None:
        """Open the unrolls whose first decision starts."""
        rows = np.zeros((len(self._games), self._layout.nbytes), np.uint8)
        unroll = self._layout.arrays(rows)
        if self._layout.has_pictures:
            unroll["frames"][:, : self._layout.frame_stack] = as_stacks(inputs.observations, self._layout)
        if self._layout.vector_length:
            unroll["vectors"][:, 0] = inputs.vectors
        unroll["first_lstm_state"][:] = inputs.state.lstm_state
        unroll["first_action"][:] = inputs.state.previous_actions
        unroll["first_reward"][:] = inputs.state.previous_rewards
        unroll["environment_id"][:] = [environment.environment_id for environment in self._environments]
        unroll["weight_version"][:] = NEVER
        self._open.append(_Unrolls(rows, unroll, open_steps=len(rows) * self._layout.unroll_length))

    def _unrolls_of(self, sequence: int) -> "_Unrolls":
        return self._open[(sequence - self._first) // self._layout.unroll_length]

    def _at(self, sequence: int) -> tuple[dict[str, NDArray[Any]], int]:
        return self._unrolls_of(sequence).fields, sequence % self._layout.unroll_length
