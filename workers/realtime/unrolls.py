"""Unrolls of games in real time, which stay open until all of their actions have had their effect."""

from collections.abc import Sequence

import numpy as np

from agents.acting import Decision
from option_flags import EnvironmentOptions
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from workers.open_unrolls import OpenUnrolls
from workers.policy_inputs import PolicyInputs, as_stacks
from workers.realtime.player import Book, PlayedFrame
from workers.rollout import SeededEnvironment, write_decision, write_finished_game, write_start
from wrappers.atari import REWARD_CLIPPING
from wrappers.timeline import Effect

NEVER = np.iinfo(np.int64).max  # larger than the version of any weights


class RealtimeUnrolls(Book):
    """A step for each decision, in the order of their starts. All E games have the same decisions.

    A stored step is the observation at the start of the decision, the policy that made it, and its effect. At a time
    limit, the value of the final state is that of the newest decision of the episode.
    """

    def __init__(
        self, layout: UnrollLayout, options: EnvironmentOptions, environments: Sequence[SeededEnvironment]
    ) -> None:
        self._clip = REWARD_CLIPPING[options.reward_clipping_method]
        self._layout = layout
        self._environments = environments
        self._open = OpenUnrolls(layout, options, len(environments))
        self._started = 0  # decisions so far
        self._version = 0  # of the weights of the decision that was made last
        self._newest_decided = -1  # the newest decision that was made, and its value of each game
        self._values: list[float] = []
        # Of each game since the newest decision started: frames, idle ones, missed ones, ends of episodes.
        self._counts = np.zeros((len(environments), 4), np.int32)

    def take(self) -> Rows | None:
        """The oldest unrolls [E, nbytes] if all of their steps are known and the state after them, else None."""
        if self._started <= self._open.first + self._layout.unroll_length:
            return None
        rows = self._open.take()
        if rows is not None:
            versions = self._layout.array(rows, "weight_version")
            versions[versions == NEVER] = self._version  # all of its decisions were lost
        return rows

    def started(self, sequence: int, inputs: PolicyInputs, rewards: Sequence[float]) -> None:
        if sequence:
            self._finish_step(sequence - 1, inputs, rewards)
        if sequence == self._open.end:
            unroll = self._open.begin()
            write_start(unroll, self._layout, inputs, self._environments)
            unroll["weight_version"][:] = NEVER
        self._started += 1

    def decided(self, sequence: int, decision: Decision, version: int, seconds: float) -> None:
        unroll, t = self._open.at(sequence)
        write_decision(unroll, decision, slice(None), t)
        unroll["inference_times"][:, t] = 1000 * seconds
        versions = unroll["weight_version"]
        np.minimum(versions, version, out=versions)
        self._version = version
        if sequence > self._newest_decided:
            self._newest_decided, self._values = sequence, decision.values.tolist()

    def known(self, game: int, effect: Effect) -> None:
        # If an action of the episode had an effect, the newest decision is one of this episode, too.
        self._open.note(game, effect, self._values[game] if effect.cut else 0.0)

    def played(self, game: int, frame: PlayedFrame, missed: bool) -> None:
        self._counts[game] += (1, frame.played.is_idle, missed, frame.ended)
        if frame.ended:
            self._environments[game].note_finished_games()

    def _finish_step(self, sequence: int, inputs: PolicyInputs, rewards: Sequence[float]) -> None:
        """Write what is known of a step when the next decision starts, from the frame that this one sees."""
        unroll, t = self._open.at(sequence)
        if self._layout.has_pictures:
            unroll["frames"][:, self._layout.frame_stack + t] = as_stacks(inputs.observations, self._layout)[:, -1]
        if self._layout.vector_length:
            unroll["vectors"][:, t + 1] = inputs.vectors
        unroll["seen_rewards"][:, t] = [self._clip(reward) for reward in rewards]
        played, idle, missed, ends = self._counts.T
        unroll["played_frames"] += played
        unroll["idle_frames"] += idle
        unroll["missed_frames"] += missed
        unroll["dones"][:, t] = ends > 0
        self._counts[:] = 0
        for e, environment in enumerate(self._environments):
            write_finished_game(unroll, self._layout, environment, e, t)
