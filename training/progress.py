"""How far a run is: its counters, and what happened since the last report."""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from replay.mix import Batch
from replay.unroll_layout import Rows, UnrollLayout
from run_files.metrics import Episode, JsonValue
from training.draw_statistics import DrawSums

GAMES_TO_JUDGE = 20  # games that a best policy must have behind it, or all of a smaller window
SHORTEST_SPAN, RECENT = 0.5, 20.0  # seconds that a speed is taken over: at least, and about
STAGES = ("wait", "drain", "mix", "update", "publish", "save", "report")


class Progress:
    """Counters over the run, and sums over the stretch since the last report."""

    def __init__(
        self,
        layout: UnrollLayout,
        environments_per_worker: int,
        skipped_frames: int,
        max_steps: int,
        return_window: int,
    ) -> None:
        self._layout = layout
        self._environments_per_worker = environments_per_worker
        self.skipped_frames = skipped_frames
        self.max_steps = max_steps
        self._begun = time.monotonic()
        self.agent_steps = 0
        self._earlier = (0, 0, 0)  # steps, frames and updates of the runs that this one goes on from
        self.updates = 0
        self.episodes = 0
        self.return_window = return_window  # games that `return_mean` is the mean of
        self.recent_returns: deque[float] = deque(maxlen=return_window)
        self.return_max: float | None = None
        self._recently: deque[tuple[float, int]] = deque()  # seconds and agent steps
        self.best_return_mean: float | None = None
        self._stage_totals = dict.fromkeys(STAGES, 0.0)
        self._at_first_unroll: tuple[float, dict[str, float]] | None = None
        self.best_eval_mean: float | None = None
        self._learned: torch.Tensor | None
        self._learned_names: tuple[str, ...]
        self._lags: list[int]
        self.begin_stretch()

    def state_dict(self) -> dict[str, Any]:
        """The stretch under way included, so that a resumed run reports it as if nothing had happened."""
        return {
            "agent_steps": self.agent_steps,
            "frames": self.frames,
            "updates": self.updates,
            "episodes": self.episodes,
            "seconds": self.seconds,
            "recent_returns": list(self.recent_returns),
            "return_max": self.return_max,
            "best_return_mean": self.best_return_mean,
            "best_eval_mean": self.best_eval_mean,
            "stretch_steps": self.steps_at_report,
            "stretch_seconds": self.seconds - self._stretch_begun,
            "stage_seconds": dict(self._stage_seconds),
            "learned": None if self._learned is None else self._learned.tolist(),
            "learned_names": list(self._learned_names),
            "updates_learned": self._updates_learned,
            "lags": self._lags,
            "draw_sums": self.draw_sums.rows,
            "draws": self.draw_sums.draws,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.agent_steps, self.updates, self.episodes = state["agent_steps"], state["updates"], state["episodes"]
        frames = state.get("frames", self.frames)  # which older versions did not write down
        self._earlier = self.agent_steps, frames, self.updates
        self._begun = time.monotonic() - state["seconds"]
        self.recent_returns.extend(state["recent_returns"])
        self.return_max, self.best_return_mean = state["return_max"], state["best_return_mean"]
        self.best_eval_mean = state.get("best_eval_mean")  # not in checkpoints from before there were evaluations
        self.begin_stretch()
        self.steps_at_report = state["stretch_steps"]
        self._stretch_begun = state["seconds"] - state["stretch_seconds"]
        self._stage_seconds |= state["stage_seconds"]
        self._learned = None if state["learned"] is None else torch.tensor(state["learned"], dtype=torch.float32)
        self._learned_names, self._updates_learned = tuple(state["learned_names"]), state["updates_learned"]
        self._lags = list(state["lags"])
        self.draw_sums = DrawSums(state["draw_sums"], state["draws"])

    def judge(self) -> bool:
        """Whether the policy of now has the highest mean return so far; needs enough games to say so."""
        mean = self.return_mean
        if mean is None or len(self.recent_returns) < min(GAMES_TO_JUDGE, self.return_window):
            return False
        if self.best_return_mean is not None and mean <= self.best_return_mean:
            return False
        self.best_return_mean = mean
        return True

    def begin_stretch(self) -> None:
        """From here on, sums are those of the next report."""
        self._stretch_begun, self.steps_at_report = self.seconds, self.agent_steps
        self._stage_seconds = dict.fromkeys(STAGES, 0.0)
        self._learned = None
        self._learned_names = ()
        self._updates_learned = 0
        self._lags = []
        self.draw_sums = DrawSums()

    @property
    def seconds(self) -> float:
        """Training time."""
        return time.monotonic() - self._begun

    @property
    def unrolls_left(self) -> int:
        """How many more unrolls the run is to learn from."""
        return max(0, -((self.agent_steps - self.max_steps) // self._layout.unroll_length))

    @property
    def anything_new(self) -> bool:
        """Whether anything happened in this stretch."""
        return bool(self.agent_steps > self.steps_at_report or self._updates_learned > 0)

    @property
    def frames(self) -> int:
        """Also of a lineage whose runs skip different numbers of them."""
        earlier_steps, earlier_frames, _ = self._earlier
        return int(earlier_frames + (self.agent_steps - earlier_steps) * self.skipped_frames)

    @property
    def has_learned(self) -> bool:
        """Whether this run itself has made an update."""
        return self.updates > self._earlier[2]

    @property
    def return_mean(self) -> float | None:
        return float(np.mean(self.recent_returns)) if self.recent_returns else None

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block towards a stage."""
        begun = time.perf_counter()
        yield
        spent = time.perf_counter() - begun
        self._stage_seconds[name] += spent
        self._stage_totals[name] += spent

    def received(self, row: Rows) -> list[Episode]:
        """Count one unroll `[nbytes]`; return the games that ended in it."""
        if self._at_first_unroll is None:
            self._at_first_unroll = self.seconds, dict(self._stage_totals)
        lengths = self._layout.array(row, "game_lengths")
        episodes = []
        for t in np.flatnonzero(lengths):
            game_return = float(self._layout.array(row, "game_returns")[t])
            worker = int(self._layout.array(row, "environment_id")) // self._environments_per_worker
            episodes.append(Episode(self.agent_steps + int(t) + 1, game_return, int(lengths[t]), worker))
            self.recent_returns.append(game_return)
            self.return_max = game_return if self.return_max is None else max(self.return_max, game_return)
        self.episodes += len(episodes)
        self.agent_steps += self._layout.unroll_length
        return episodes

    def updated(self, batch: Batch, learned: Mapping[str, torch.Tensor]) -> None:
        """Count one update, and how old the policies were that its fresh unrolls came from."""
        versions = self._layout.array(batch.rows.numpy(), "weight_version")[batch.fresh]
        self._lags.extend((self.updates - versions).tolist())
        self.updates += 1
        self.draw_sums.add(batch)
        figures = torch.stack([figure.float() for figure in learned.values()])
        names = tuple(learned)
        if self._learned is None or names != self._learned_names:  # another version's checkpoint may have others
            self._learned, self._learned_names, self._updates_learned = torch.zeros_like(figures), names, 0
        self._learned = self._learned.to(figures.device) + figures
        self._updates_learned += 1

    def latest(self) -> dict[str, float | None]:
        """The learner's figures, averaged over the updates of this stretch; empty before its first."""
        if self._learned is None:
            return {}
        means = (self._learned / self._updates_learned).tolist()
        return dict(zip(self._learned_names, means, strict=True))

    def lag(self) -> tuple[float | None, int | None]:
        """Mean and maximum, in updates, of the fresh unrolls of this stretch."""
        return (float(np.mean(self._lags)), max(self._lags)) if self._lags else (None, None)

    @property
    def stretch_seconds(self) -> float:
        return max(self.seconds - float(self._stretch_begun), 1e-9)

    def wait_fraction(self) -> float:
        return float(self._stage_seconds["wait"] / self.stretch_seconds)

    def time_shares_of_the_run(self) -> dict[str, float]:
        """Parts of the time by stage since the first unroll came; before that, the workers were loading."""
        begun, before = self._at_first_unroll or (self.seconds, self._stage_totals)
        whole = max(self.seconds - begun, 1e-9)
        return {name: (total - before[name]) / whole for name, total in self._stage_totals.items()}

    def recent_speed(self) -> float:
        """Agent steps a second not long ago, for a display; 0 until the calls span enough time to tell."""
        if self.agent_steps == self._earlier[0]:
            return 0.0  # workers that start, and a first update, which takes long, tell nothing of the speed
        marks = self._recently
        if len(marks) > 1 and marks[-1][1] == self.agent_steps:
            marks.pop()  # nothing came since then
        marks.append((self.seconds, self.agent_steps))
        while len(marks) > 2 and marks[-1][0] - marks[1][0] >= RECENT:
            marks.popleft()
        (first_time, first_steps), (last_time, last_steps) = marks[0], marks[-1]
        span = last_time - first_time
        return (last_steps - first_steps) / span if span >= SHORTEST_SPAN else 0.0

    def close_stretch(self) -> dict[str, JsonValue]:
        """All figures of the stretch that ends here, by the names they have in metrics.jsonl."""
        seconds, stretch_seconds = self.seconds, self.stretch_seconds
        speed = (self.agent_steps - self.steps_at_report) / stretch_seconds
        lag_mean, lag_max = self.lag()
        figures: dict[str, JsonValue] = {
            "time": time.time(),
            "seconds": seconds,
            "agent_steps": self.agent_steps,
            "frames": self.frames,
            "updates": self.updates,
            "steps_per_second": speed,
            "frames_per_second": speed * self.skipped_frames,
            "episodes": self.episodes,
            "return_mean": self.return_mean,
            "return_max": self.return_max,
            "policy_lag_mean": lag_mean,
            "policy_lag_max": lag_max,
            "learner_wait_fraction": self.wait_fraction(),
            "time_shares": {name: value / stretch_seconds for name, value in self._stage_seconds.items()},
        }
        figures |= self.latest()
        self.begin_stretch()
        return figures


def without_stretch(state: Mapping[str, Any]) -> dict[str, Any]:
    """A saved progress as it is right after a report."""
    nothing = {
        "stretch_steps": state["agent_steps"],
        "stretch_seconds": 0.0,
        "stage_seconds": dict.fromkeys(STAGES, 0.0),
        "learned": None,
        "learned_names": [],
        "updates_learned": 0,
        "lags": [],
    }
    return without_draws({**state, **nothing})


def without_draws(state: Mapping[str, Any]) -> dict[str, Any]:
    """A saved progress in which nothing was drawn from the replays since the last report."""
    return {**state, "draw_sums": [], "draws": 0}
