"""What the learners of a run decide together: when they update, report and save, and when the run ends.

A learner that has a batch, has used its share of the steps, or wants the run to end, says so to all. When all have said
something, all know the same, so they all decide the same: they update, or the run ends after the same update. Until
then, each goes on to look after its workers. Once it is decided, and at the end, all tell their news.

What is done together is decided from what all know: a learner that took part alone would wait for ever.

A silent learner counts as lost. So one that has had no batch for long sends a sign of life: then nobody updates. Signs
of life, whose times are random, change nothing else of a run.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from statistics import mean
from typing import NamedTuple

import torch

from learners.group import Exchange, LearnerGroup, LearnerLostError
from run_files.metrics import Episode, JsonValue, Report

PATIENCE_SECONDS = 0.002  # a learner waits so long for the others before it looks after its workers again
NAP_SECONDS = 0.0001
SIGN_OF_LIFE = 1 / 3  # of the time after which a silent learner is lost

CHECKSUM = "weights_checksum"
WAITS = "wait_for_learners_fraction"

# Learners play and learn at the same time, so what each one uses or has adds up.
SUMS = (
    "cpu_learner",
    "cpu_workers",
    "memory_learner_mb",
    "memory_workers_mb",
    "core_seconds_per_1000_frames",
    "gpu_memory_mb",
    "rounds_under_way",
    "worker_restarts",
    "failed_resets",
)
# Their parts of a batch are equal, so the mean is that of the whole batch.
MEANS = (
    "policy_lag_mean",
    "learner_wait_fraction",
    "update_ms",
    "publish_ms",
    WAITS,
    "gpu_utilization",
    *("time_shares", "worker_time_shares", "replay_time_shares", "environment"),  # by name
)
OF_EACH = ("update_ms", "learner_wait_fraction", WAITS, "policy_lag_mean", "worker_restarts")


class Said(NamedTuple):
    """What one learner says to all. All defaults: a sign of life."""

    ends: bool = False  # it wants the run to end now
    used_up: bool = False  # it has received its share of the steps, and has no batch any more
    ready: bool = False  # it has a batch


class Verdict(Enum):
    WAIT = auto()  # for the learners that have no batch yet
    UPDATE = auto()
    STOP = auto()  # a learner wants the run to end
    FINISH = auto()  # the steps of the run are used up


def decide(said: Sequence[Said]) -> Verdict:
    """What all learners do, from what all of them have said."""
    # A learner without steps waits for those that still receive some: all steps of the run are received.
    all_said = all(each.used_up or each.ready for each in said)
    if all_said and any(each.used_up for each in said):
        return Verdict.FINISH
    if any(each.ends for each in said):
        return Verdict.STOP
    return Verdict.UPDATE if all_said else Verdict.WAIT


class News(NamedTuple):
    """What one learner tells all; counts are those since its last news."""

    updates: int = 0  # that it has made
    goal_reached: bool = False  # what the first learner says: the mean return has reached --stop_at_return
    report: bool = False  # what the first learner says: all report after this update
    save: int = 0  # likewise: 0 no, 1 a checkpoint, 2 with the replays
    steps: int = 0  # agent steps
    frames: int = 0  # game frames, where games do not wait
    games: Sequence[Episode] = ()  # that ended

    def plus(self, steps: int, frames: int, games: Sequence[Episode]) -> "News":
        return self._replace(steps=self.steps + steps, frames=self.frames + frames, games=[*self.games, *games])


class Agreement:
    """Asked by the training loop, and by what reports and saves. Here, a single learner decides by itself."""

    alone = True  # whether there are no other learners

    def goes_on(self, stops: bool, used_up: bool) -> bool:
        """Whether the run goes on, if this learner wants to stop it or not, and has `used_up` its steps or not."""
        return not (stops or used_up)

    def finished(self, used_up: bool) -> bool:
        """Called once when the run does not go on: whether its steps are used up, if those of this learner are."""
        return used_up

    def keep_alive(self) -> bool:
        """Called again and again by a first learner that is busy with an evaluation; whether the run goes on."""
        return True

    def may_update(self, ready: bool) -> bool:
        """Whether all learners update now; this one is `ready` for it or not."""
        return ready

    def report_due(self, is_due: bool) -> bool:
        """Whether to report after this update, if a report `is_due` for this learner."""
        return is_due

    def save_due(self, due: Callable[[], int]) -> int:
        """What to save now, if `due` tells what this learner would save: see `News.save`."""
        return due()

    def merged(self, report: Report, figures_of_batch: Sequence[str], checksum: Callable[[], int]) -> Report:
        """The report of all learners, from that of this one.

        `figures_of_batch` are means over its part of batches; `checksum()` of the weights is compared with the others.
        """
        return report


class GroupAgreement(Agreement):
    """Decides together with the other learners."""

    alone = False

    def __init__(self, group: LearnerGroup) -> None:
        self._group = group
        self._own_news: Callable[[], News] = News
        self._receive: Callable[[Sequence[News]], None] = lambda news: None
        self._exchange: Exchange | None = None  # under way
        self._exchanged_at = time.monotonic()
        self._verdict = Verdict.WAIT
        self._report = False  # after the update
        self._save = 0
        self._waited = 0.0  # seconds for the others, since the latest report
        self._reported_at = time.monotonic()

    def connect(self, own_news: Callable[[], News], receive: Callable[[Sequence[News]], None]) -> None:
        """From now on, tell the others `own_news()`, and pass what they tell to `receive`."""
        self._own_news, self._receive = own_news, receive

    def goes_on(self, stops: bool, used_up: bool) -> bool:
        if (stops or used_up) and self._verdict is Verdict.WAIT:
            self._talk(math.inf, Said(ends=stops, used_up=used_up))
        return self._verdict in (Verdict.WAIT, Verdict.UPDATE)

    def finished(self, used_up: bool) -> bool:
        with self._group.guarded():
            all_used_up = all(self._group.of_all(used_up))
            self._exchange_news()
        return self._verdict is Verdict.FINISH or all_used_up

    def keep_alive(self) -> bool:
        self._take_part(ready=False)
        return self.goes_on(stops=False, used_up=False)

    def may_update(self, ready: bool) -> bool:
        self._take_part(ready)
        granted = self._verdict is Verdict.UPDATE
        if granted:
            self._verdict = Verdict.WAIT
        return granted

    def report_due(self, is_due: bool) -> bool:
        return self._report

    def save_due(self, due: Callable[[], int]) -> int:
        save, self._save = self._save, 0
        return save

    def merged(self, report: Report, figures_of_batch: Sequence[str], checksum: Callable[[], int]) -> Report:
        if self._group.lost:
            return report
        now = time.monotonic()
        waits = self._waited / max(now - self._reported_at, 1e-9)
        self._waited, self._reported_at = 0.0, now
        with self._group.guarded():
            return merged_report(self._group.of_all({**report, WAITS: waits, CHECKSUM: checksum()}), figures_of_batch)

    def _take_part(self, ready: bool) -> None:
        """Go on with the exchange under way; begin one if this learner is ready, or has been silent for long."""
        silent_for = time.monotonic() - self._exchanged_at
        is_due = ready or self._exchange is not None or silent_for > SIGN_OF_LIFE * self._group.timeout
        if is_due and self._verdict is Verdict.WAIT:
            self._talk(PATIENCE_SECONDS, Said(ready=ready))

    def _talk(self, patience: float, own: Said) -> None:
        """Wait up to `patience` seconds for what all say, and decide. If nothing is under way, begin with `own`."""
        begun = time.monotonic()
        self._exchange = self._exchange or self._group.send(torch.tensor(own, dtype=torch.uint8))
        with self._group.guarded():
            while (messages := self._exchange.messages()) is None and time.monotonic() - begun < patience:
                time.sleep(NAP_SECONDS)
            if messages is not None:
                self._exchange, self._exchanged_at = None, time.monotonic()
                self._verdict = decide([Said(*map(bool, message.tolist())) for message in messages])
                if self._verdict is not Verdict.WAIT:
                    self._exchange_news()
        self._waited += time.monotonic() - begun

    def _exchange_news(self) -> None:
        *counts, games = self._own_news()
        told = self._group.rows_of_all(torch.tensor([[*counts, len(games)]], dtype=torch.int64)).tolist()
        # Objects take three times as long as numbers, and in many updates no game has ended.
        all_games = self._group.of_all(games) if any(own[-1] for own in told) else [()] * len(told)
        news = [
            News(updates, bool(goal_reached), bool(report), save, steps, frames, ended)
            for (updates, goal_reached, report, save, steps, frames, _), ended in zip(told, all_games, strict=True)
        ]
        updates = {each.updates for each in news}
        if len(updates) > 1:
            raise LearnerLostError(f"the learners have made {', '.join(map(str, sorted(updates)))} updates")
        self._report, self._save = news[0].report, news[0].save
        self._receive([each for rank, each in enumerate(news) if rank != self._group.rank.index])


def merged_report(reports: Sequence[Report], figures_of_batch: Sequence[str]) -> Report:
    """The report of all learners: sums, means and maxima, and figures of each learner under `learners`.

    What all learners know alike, such as the agent steps, is that of the first one. So is what has no sum or mean that
    would tell more: figures of each replay, and of the timing of games.
    """
    checksums = [report.get(CHECKSUM) for report in reports]
    others = [str(rank) for rank, checksum in enumerate(checksums) if checksum != checksums[0]]
    if others:  # all make the same updates, so their weights must be equal, bit for bit
        raise LearnerLostError(f"the weights of learner {', '.join(others)} are not those of learner 0")
    merged = {name: value for name, value in reports[0].items() if name != CHECKSUM}
    for names, combine in ((SUMS, sum), ((*MEANS, *figures_of_batch), mean), (("policy_lag_max",), max)):
        for name in names:
            if name in merged:
                merged[name] = _combined([report.get(name) for report in reports], combine)
    merged["learners"] = [{name: report.get(name) for name in OF_EACH} for report in reports]
    return merged


def _combined(values: Sequence[JsonValue], combine: Callable[[Sequence[float]], float]) -> JsonValue:
    if isinstance(values[0], Mapping):
        tables = [each for each in values if isinstance(each, Mapping)]
        return {key: _combined([each.get(key) for each in tables], combine) for key in values[0]}
    numbers = [each for each in values if isinstance(each, int | float)]
    return combine(numbers) if numbers else None
