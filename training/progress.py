"""How far a run is: environment steps, episodes, returns, training time and speed."""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from learners.agreement import News
from learners.rank import LearnerRank
from option_flags import Config
from replay.mix import Batch
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout, read_game_info
from run_files.metrics import Episode, JsonValue
from training.interval import STAGES, Interval

ONLY_LEARNER = LearnerRank()
MIN_GAMES = 20  # games that a best mean return needs, or a full window where the window is smaller
BEST_SO_FAR = ("best_return_mean", "best_return_steps", "best_eval_mean", "evaluated_steps")
MIN_SPEED_SPAN, SPEED_SPAN = 0.5, 20.0  # seconds for the mean of the displayed speed: smallest and usual


class Progress:
    """Counters of a run, continued from the run that it resumes. Only the learner counts updates."""

    def __init__(
        self,
        config: Config,
        layout: UnrollLayout,
        rank: LearnerRank = ONLY_LEARNER,  # each receives an equal share of the steps left
        first_worker: int = 0,  # the number of this learner's first worker among those of all
    ) -> None:
        self._layout = layout
        self._environments_per_worker = config.workers.envs_per_worker
        self._frames_per_step = config.environment.frames_per_step
        self._played_frames = 0  # by this run, where games do not wait
        self.max_steps = config.run.environment_max_steps
        self._parent_seconds = 0.0  # of training, at the start of this run
        self.begin()
        self._learners = rank.size
        self._own_unrolls = 0  # that this learner has received in this run
        self._first_worker = first_worker
        self._unsent = News()  # what the other learners do not know yet
        self.agent_steps = 0  # of all learners, as far as this one knows
        self.episodes = 0
        self.updates = 0  # of the network, as the learner counts them
        self.parent_steps = self._parent_frames = 0  # at the start of this run
        self.return_window = config.report.avg_buff_size  # games that `return_mean` is averaged over
        # What is known of the latest games: "return", "length", and what the environment says.
        self.recent_games: deque[Mapping[str, float]] = deque(maxlen=self.return_window)
        self.return_max: float | None = None
        self.return_min: float | None = None
        # The latest games are not the same ones for all learners, so the goal is the first learner's to judge.
        self._goal = config.run.goal if rank.is_first else None
        # The highest mean returns of the run and its parents; best.pt and best_eval.pt are the checkpoints with them.
        self.best_return_mean: float | None = None
        self.best_return_steps: int | None = None  # agent steps of best.pt
        self.best_eval_mean: float | None = None
        self.evaluated_steps = 0  # agent steps up to which no evaluation is due any more
        self.goal_reached = False  # whether a mean over a full window was at least that of the goal
        self._speed_marks: deque[tuple[float, int]] = deque()  # (seconds, agent steps)
        self.interval = Interval(config, layout)
        self._stage_seconds = dict.fromkeys(STAGES, 0.0)  # since the first unroll of this run
        self._first_unroll_at = 0.0

    def state_dict(self, updates: int) -> dict[str, Any]:
        """Includes the interval since the latest report, so that a resumed run can report it as a whole.

        `updates` is the learner's count. It is stored here too, where it can be read without the weights.
        """
        return {
            **self._counts(),
            "updates": updates,
            "recent_games": [dict(game) for game in self.recent_games],
            "return_min": self.return_min,
            "reached_goal": list(self._goal) if self._goal and self.goal_reached else None,
            **{name: getattr(self, name) for name in BEST_SO_FAR},
            "action_ms": self.interval.action_ms,
            "interval": self.interval.state_dict(self.seconds),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue the counters of the parent. Where its interval is None, a new one begins."""
        names = ("agent_steps", "episodes", "updates", "frames")
        self.agent_steps, self.episodes, self.updates, self._parent_frames = (int(state[name]) for name in names)
        self._parent_seconds, self.parent_steps = float(state["seconds"]), self.agent_steps
        self.begin()
        self.recent_games.extend({**game, "return": float(game["return"])} for game in state["recent_games"])
        self.return_max, self.return_min = (
            None if state[name] is None else float(state[name]) for name in ("return_max", "return_min")
        )
        for name in BEST_SO_FAR:
            setattr(self, name, state[name])
        if state["interval"] is None:
            self.interval.begin(self._parent_seconds, self.agent_steps)
        else:
            self.interval.load_state_dict(state["interval"], self._parent_seconds)
        self.interval.action_ms_before = state["action_ms"]

    def begin(self) -> None:
        """Training time counts from here on, not the preparations before."""
        self._begun = time.monotonic() - self._parent_seconds
        self._ended: float | None = None

    def end(self) -> None:
        """Later evaluations of the policy do not count as training time."""
        self._ended = time.monotonic()

    @property
    def seconds(self) -> float:
        """Training time."""
        return (time.monotonic() if self._ended is None else self._ended) - self._begun

    @property
    def unrolls_left(self) -> int:
        """How many more unrolls this learner receives; its share of the run's is rounded up."""
        share = -((self.parent_steps - self.max_steps) // (self._layout.unroll_length * self._learners))
        return max(0, share - self._own_unrolls)

    @property
    def needs_steps(self) -> bool:
        """Whether --environment_max_steps is not reached."""
        return self.agent_steps < self.max_steps

    @property
    def is_complete(self) -> bool:
        """Whether the run, of all learners, needs no more unrolls."""
        return self.goal_reached or not self.needs_steps

    @property
    def frames_per_step(self) -> float:
        """Game frames from one decision to the next; where games do not wait, the mean of this run."""
        steps = self.agent_steps - self.parent_steps
        return self._played_frames / steps if self._layout.delayed_actions and steps else self._frames_per_step

    @property
    def frames(self) -> int:
        """Game frames; a resumed run may skip another number of frames than its parent."""
        return round(self._parent_frames + (self.agent_steps - self.parent_steps) * self.frames_per_step)

    @property
    def return_mean(self) -> float | None:
        """Mean return of the latest games."""
        return float(np.mean(self.recent_returns)) if self.recent_returns else None

    @property
    def is_best(self) -> bool:
        """Whether the mean return is the highest so far, and over enough games."""
        mean = self.return_mean
        if mean is None or len(self.recent_games) < min(MIN_GAMES, self.return_window):
            return False
        return self.best_return_mean is None or mean > self.best_return_mean

    @property
    def recent_returns(self) -> list[float]:
        """Of the latest games."""
        return [game["return"] for game in self.recent_games]

    def environment_figures(self) -> dict[str, JsonValue]:
        """Under `environment`, means of what the environment says of the latest games, over those that have it."""
        names = sorted({name for game in self.recent_games for name in game} - {"return", "length"})
        means = {name: float(np.mean([game[name] for game in self.recent_games if name in game])) for name in names}
        return {"environment": means} if means else {}

    @property
    def never_scored(self) -> bool:
        """Whether games have ended, and all of them with a return of 0."""
        return self.return_max == self.return_min == 0

    # --- Counting -----------------------------------------------------------------------------------------------------

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to a stage of the learner's time."""
        begun = time.perf_counter()
        yield
        spent = time.perf_counter() - begun
        self.interval.add_time(name, spent)
        self._stage_seconds[name] += spent

    def count_unroll(self, row: Rows) -> list[Episode]:
        """Count one unroll `[nbytes]`; return the games that ended in it."""
        if not self._own_unrolls:  # the workers were starting
            self._stage_seconds, self._first_unroll_at = dict.fromkeys(STAGES, 0.0), self.seconds
        lengths = self._layout.array(row, "game_lengths")
        ended, episodes = np.flatnonzero(lengths), []
        said = read_game_info(self._layout.array(row, "game_info")) if self._layout.tells_of_games else []
        said = [{}] * (len(ended) - len(said)) + said  # there may be no room for that of the first games
        for t, info in zip(ended, said, strict=True):
            game_return = float(self._layout.array(row, "game_returns")[t])
            worker = (
                self._first_worker + int(self._layout.array(row, "environment_id")) // self._environments_per_worker
            )
            episodes.append(Episode(self.agent_steps + int(t) + 1, game_return, int(lengths[t]), worker, info))
        self._count_episodes(episodes)
        self.interval.add_unroll(row)
        frames = int(self._layout.array(row, "played_frames")) if self._layout.delayed_actions else 0
        self._played_frames += frames
        self.agent_steps += self._layout.unroll_length
        self._own_unrolls += 1
        if self._learners > 1:
            self._unsent = self._unsent.plus(self._layout.unroll_length, frames, episodes)
        return episodes

    def _count_episodes(self, episodes: Sequence[Episode]) -> None:
        for episode in episodes:
            game_return = episode.return_
            self.recent_games.append({**episode.info, "return": game_return, "length": float(episode.length)})
            self.return_max = game_return if self.return_max is None else max(self.return_max, game_return)
            self.return_min = game_return if self.return_min is None else min(self.return_min, game_return)
        if episodes and not self.goal_reached and self._goal is not None:
            numbers = [game[self._goal.name] for game in self.recent_games if self._goal.name in game]
            is_full = len(numbers) == self.return_window
            self.goal_reached = is_full and bool(np.mean(numbers) >= self._goal.value)
        self.episodes += len(episodes)

    def unknown_goal(self) -> str | None:
        """That no game has the number of the goal, once as many have ended as a mean is over."""
        goal = self._goal
        if goal is None or len(self.recent_games) < self.return_window:
            return None
        said = {name for game in self.recent_games for name in game}
        if goal.name in said:
            return None
        known = ", ".join(sorted(said))
        return f"{goal.flag} cannot end the run: its games have no number {goal.name}; they have {known}"

    def take_unsent(self) -> News:
        """What this learner has received since the last call, for the others."""
        news, self._unsent = self._unsent, News()
        return news

    def count_others(self, news: Sequence[News]) -> list[Episode]:
        """Count what the other learners have received; return the games that ended in it."""
        self.agent_steps += sum(each.steps for each in news)
        self._played_frames += sum(each.frames for each in news)
        episodes = [game._replace(agent_steps=self.agent_steps) for each in news for game in each.games]
        self._count_episodes(episodes)
        return episodes

    def count_update(self, batch: Batch, figures: Mapping[str, torch.Tensor], updates: int) -> None:
        """Count one update with its figures; `updates` is the learner's count after it."""
        self.updates = updates
        self.interval.add_update(batch, figures, updates)

    # --- Reporting ----------------------------------------------------------------------------------------------------

    @property
    def steps_since_report(self) -> int:
        return self.agent_steps - self.interval.begun_steps

    @property
    def interval_seconds(self) -> float:
        return max(self.seconds - self.interval.begun_seconds, 1e-9)

    @property
    def interval_frames_per_second(self) -> float:
        if self._layout.delayed_actions:
            return self.interval.played_frames * self._learners / self.interval_seconds  # all have about as many
        return self.steps_since_report * self.frames_per_step / self.interval_seconds

    def time_shares_of_run(self) -> dict[str, float]:
        """Fractions of the run's time by stage, since its first unroll."""
        whole = max(self.seconds - self._first_unroll_at, 1e-9)
        return {name: spent / whole for name, spent in self._stage_seconds.items()}

    def recent_speed(self) -> float | None:
        """Agent steps a second over the latest 20 seconds or so, for a display; None while it is not known."""
        if self.agent_steps == self.parent_steps:
            return None  # the workers are starting
        marks = self._speed_marks
        if len(marks) > 1 and marks[-1][1] == self.agent_steps:
            marks.pop()  # no new steps: the newest mark moves forward in time
        marks.append((self.seconds, self.agent_steps))
        while len(marks) > 2 and marks[-1][0] - marks[1][0] >= SPEED_SPAN:
            marks.popleft()
        (first_time, first_steps), (last_time, last_steps) = marks[0], marks[-1]
        span = last_time - first_time
        return (last_steps - first_steps) / span if span >= MIN_SPEED_SPAN else None

    def counters(self) -> dict[str, JsonValue]:
        """What has been counted since the start of the run and its parents, by the names in metrics.jsonl."""
        return {"time": time.time(), **self._counts(), "return_mean": self.return_mean}

    def _counts(self) -> dict[str, JsonValue]:
        return {
            "seconds": self.seconds,
            "agent_steps": self.agent_steps,
            "frames": self.frames,
            "updates": self.updates,
            "episodes": self.episodes,
            "return_max": self.return_max,
        }

    def figures(self) -> dict[str, JsonValue]:
        """The counters and the figures of the interval since the latest report, by the names in metrics.jsonl."""
        return {
            **self.counters(),
            "steps_per_second": self.steps_since_report / self.interval_seconds,
            "frames_per_second": self.interval_frames_per_second,
            "unrolls_accepted": self.steps_since_report // self._layout.unroll_length,
            **self.interval.figures(self.interval_seconds),
            **self.environment_figures(),
        }

    def begin_interval(self) -> None:
        """Called after a report."""
        self.interval.begin(self.seconds, self.agent_steps)
