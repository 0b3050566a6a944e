"""What the learners of a run decide together: when they update, report and save, and when the run ends.

A learner that has a batch, has used its share of the steps, or wants the run to end, sends a message to all. When all
messages have arrived, all learners have the same ones, so they all decide the same: they update, or the run ends after
the same update. Until then, each goes on to look after its workers. At the end, all tell what they have not told yet.

What is done together is decided from such messages only: a learner that took part alone would wait for ever.

A silent learner counts as lost. So one that has had no batch for long sends a sign of life, with no news in it: then
nobody updates, and what the others have told counts from the next update on. So signs of life, whose times are random,
change nothing else of a run.
"""

import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import torch

from learners.group import Exchange, LearnerGroup, LearnerLostError
from learners.merged_report import CHECKSUM, WAITS, merged_report
from run_files.metrics import Report

PATIENCE_SECONDS = 0.002  # a learner waits so long for the others before it looks after its workers again
NAP_SECONDS = 0.0001
SIGN_OF_LIFE = 1 / 3  # of the time after which a silent learner is lost
MAX_GAMES = 128  # in one message; the others are told with the next one
MESSAGE_BYTES = 8192
GAMES_BYTES = 7680  # of them for games: room for as many, with all digits of their numbers


class Game(NamedTuple):
    """A finished game."""

    game_return: float
    length: int
    worker: int
    info: Mapping[str, float] = {}  # what the environment says of it


class LearnerMessage(NamedTuple):
    """What one learner tells all; counts are those since its last message. All defaults: a sign of life."""

    ends: bool = False  # it wants the run to end now
    used_up: bool = False  # it has received its share of the steps, and has no batch any more
    ready: bool = False  # it has a batch
    goal_reached: bool = False  # what the first learner says: the mean return has reached --stop_at_return
    updates: int = 0  # that it has made
    report: bool = False  # what the first learner says: all report after this update
    save: int = 0  # likewise: 0 no, 1 a checkpoint, 2 with the replays
    steps: int = 0  # agent steps
    frames: int = 0  # game frames, in real time
    games: Sequence[Game] = ()  # that ended

    def plus(self, steps: int, frames: int, games: Sequence[Game]) -> "LearnerMessage":
        return self._replace(steps=self.steps + steps, frames=self.frames + frames, games=[*self.games, *games])

    def encoded(self) -> torch.Tensor:
        """As bytes, of which all messages have as many."""
        return torch.frombuffer(bytearray(json.dumps(self).encode().ljust(MESSAGE_BYTES)), dtype=torch.uint8)

    @classmethod
    def decoded(cls, message: torch.Tensor) -> "LearnerMessage":
        *others, games = json.loads(bytes(message.numpy()))
        return cls._make([*others, [Game(*game) for game in games]])


class Verdict(Enum):
    WAIT = auto()  # for the learners that have no batch yet
    UPDATE = auto()
    STOP = auto()  # a learner wants the run to end
    FINISH = auto()  # the steps of the run are used up


class Decision(NamedTuple):
    """What all learners decide from the same messages."""

    verdict: Verdict
    report: bool = False  # after the update
    save: int = 0


def decide(heard: Sequence[Sequence[LearnerMessage]]) -> Decision:
    """The decision on the messages of all learners since the latest update: the last ones, and those that had to wait.

    Raises a LearnerLostError if the learners have made different updates.
    """
    news = heard[-1]
    updates = {each.updates for each in news if each.ends or each.used_up or each.ready}
    if len(updates) > 1:
        raise LearnerLostError(f"the learners have made {', '.join(map(str, sorted(updates)))} updates")
    # A learner without steps waits for those that still receive some: all steps of the run are received.
    all_said = all(each.used_up or each.ready for each in news)
    if all_said and any(each.used_up for each in news):
        return Decision(Verdict.FINISH)
    if any(each.ends for each in news):
        return Decision(Verdict.STOP)
    if not all_said:
        return Decision(Verdict.WAIT)
    return Decision(Verdict.UPDATE, any(said[0].report for said in heard), max(said[0].save for said in heard))


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
        """What to save now, if `due` tells what this learner would save: see `LearnerMessage.save`."""
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
        self._own_news: Callable[[], LearnerMessage] = LearnerMessage
        self._receive: Callable[[Sequence[LearnerMessage]], None] = lambda news: None
        self._games_left: list[Game] = []  # of this learner, which had no room in its messages
        self._exchange: Exchange | None = None  # under way
        self._exchanged_at = time.monotonic()
        self._heard: list[list[LearnerMessage]] = []  # of all learners, since the latest update
        self._decision = Decision(Verdict.WAIT)
        self._waited = 0.0  # seconds for the others, since the latest report
        self._reported_at = time.monotonic()

    def connect(
        self, own_news: Callable[[], LearnerMessage], receive: Callable[[Sequence[LearnerMessage]], None]
    ) -> None:
        """From now on, tell the others `own_news()`, and pass what they tell to `receive`."""
        self._own_news, self._receive = own_news, receive

    def goes_on(self, stops: bool, used_up: bool) -> bool:
        if (stops or used_up) and self._decision.verdict is Verdict.WAIT:
            self._talk(math.inf, LearnerMessage(ends=stops, used_up=used_up))
        return self._decision.verdict in (Verdict.WAIT, Verdict.UPDATE)

    def finished(self, used_up: bool) -> bool:
        news = self._own_news()
        with self._group.guarded():
            told = self._group.of_all((used_up, news._replace(games=[*self._games_left, *news.games])))
        self._receive([told[rank][1] for rank in self._others])
        return self._decision.verdict is Verdict.FINISH or all(used_up for used_up, _ in told)

    def keep_alive(self) -> bool:
        self._take_part(ready=False)
        return self.goes_on(stops=False, used_up=False)

    def may_update(self, ready: bool) -> bool:
        self._take_part(ready)
        granted = self._decision.verdict is Verdict.UPDATE
        if granted:
            self._decision = self._decision._replace(verdict=Verdict.WAIT)
        return granted

    def report_due(self, is_due: bool) -> bool:
        return self._decision.report

    def save_due(self, due: Callable[[], int]) -> int:
        save = self._decision.save
        self._decision = self._decision._replace(save=0)
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
        if is_due and self._decision.verdict is Verdict.WAIT:
            self._talk(PATIENCE_SECONDS, LearnerMessage(ready=ready))

    def _talk(self, patience: float, say: LearnerMessage) -> None:
        """Wait up to `patience` seconds for the messages of all, and decide. If none is under way, begin with `say`."""
        begun = time.monotonic()
        self._exchange = self._exchange or self._group.send(self._with_news(say).encoded())
        with self._group.guarded():
            while (messages := self._exchange.messages()) is None and time.monotonic() - begun < patience:
                time.sleep(NAP_SECONDS)
        self._waited += time.monotonic() - begun
        if messages is None:
            return
        self._exchange, self._exchanged_at = None, time.monotonic()
        self._heard.append([LearnerMessage.decoded(message) for message in messages])
        self._decision = decide(self._heard)
        if self._decision.verdict is not Verdict.WAIT:
            heard, self._heard = self._heard, []
            self._receive([said[rank] for rank in self._others for said in heard])

    def _with_news(self, say: LearnerMessage) -> LearnerMessage:
        if not (say.ends or say.used_up or say.ready):
            return say
        news = self._own_news()
        games = [*self._games_left, *news.games]
        sizes = itertools.accumulate(len(json.dumps(game)) + 2 for game in games[:MAX_GAMES])
        fitting = sum(size <= GAMES_BYTES for size in sizes)
        self._games_left = games[fitting:]
        return news._replace(ends=say.ends, used_up=say.used_up, ready=say.ready, games=games[:fitting])

    @property
    def _others(self) -> list[int]:
        return [rank for rank in range(self._group.size) if rank != self._group.rank.index]
