"""What the learners of a run decide together: when they update, report and save, and when the run ends.

A learner that has a batch, has used its share of the steps, or wants the run to end, sends a message to all. When all
messages have arrived, all learners have the same ones, so they all decide the same: they update, or the run ends after
the same update. Until then, each goes on to look after its workers. At the end, all tell what they have not told yet.

What is done together is decided from such messages only: a learner that took part alone would wait for ever.

A silent learner counts as lost. So one that has had no batch for long sends a sign of life, with no news in it: then
nobody updates, and what the others have told counts from the next update on. So signs of life, whose times are random,
change nothing else of a run.
"""

import time
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from learners.group import Exchange, LearnerGroup, LearnerLostError
from learners.merged_report import CHECKSUM, WAITS, WaitingTimes, merged_report
from learners.messages import MAX_GAMES, Game, LearnerMessage
from run_files.metrics import Report

PATIENCE_SECONDS = 0.002  # a learner waits so long for the others before it looks after its workers again
NAP_SECONDS = 0.0001
SIGN_OF_LIFE = 1 / 3  # of the time after which a silent learner is lost


class Verdict(Enum):
    """What all learners decide from the same messages."""

    WAIT = auto()  # for the learners that have no batch yet
    UPDATE = auto()
    STOP = auto()  # a learner wants the run to end
    FINISH = auto()  # the steps of the run are used up


def decide(news: Sequence[LearnerMessage]) -> Verdict:
    """The verdict on one message of each learner. Raises a LearnerLostError if they have made different updates."""
    updates = {each.updates for each in news if each.ends or each.used_up or each.ready}
    if len(updates) > 1:
        raise LearnerLostError(f"the learners have made {', '.join(map(str, sorted(updates)))} updates")
    # A learner without steps waits for those that still receive some: all steps of the run are received.
    all_said = all(each.used_up or each.ready for each in news)
    if all_said and any(each.used_up for each in news):
        return Verdict.FINISH
    if any(each.ends for each in news):
        return Verdict.STOP
    return Verdict.UPDATE if all_said else Verdict.WAIT


class Agreement:
    """Asked by the training loop, and by what reports and saves. Here, a single learner decides by itself."""

    alone = True  # whether there are no other learners

    def goes_on(self, stops: bool, used_up: bool) -> bool:
        """Whether the run goes on, if this learner wants to stop it or not, and has `used_up` its steps or not."""
        return not (stops or used_up)

    def finished(self, used_up: bool) -> bool:
        """At the end of a run: whether its steps are used up, if those of this learner are or not."""
        return used_up

    def reports_at_end(self, wanted: bool) -> bool:
        """At the end of a run: whether to write the last report, if this learner alone would or would not."""
        return wanted

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

    def merged(self, report: Report, figures_of_batch: Sequence[str]) -> Report:
        """The report of all learners, from that of this one; `figures_of_batch` are means over its part of batches."""
        return report


class _Run(NamedTuple):
    """What the agreement asks of the run of this learner, and tells it."""

    own_news: Callable[[], LearnerMessage] = LearnerMessage
    receive: Callable[[Sequence[LearnerMessage]], None] = lambda news: None
    checksum: Callable[[], int] = int
    announce: Callable[[str], None] = lambda message: None
    wants_last_report: Callable[[bool], bool] = bool


class _End(NamedTuple):
    """What all learners know alike of the end of the run."""

    finished: bool
    last_report: bool


class GroupAgreement(Agreement):
    """Decides together with the other learners."""

    alone = False

    def __init__(self, group: LearnerGroup) -> None:
        self._group = group
        self._run = _Run()
        self._exchange: Exchange | None = None  # under way
        self._exchanged_at = time.monotonic()
        self._heard: list[list[LearnerMessage]] = []  # of all learners, since the latest update
        self._verdict = Verdict.WAIT  # the latest one, which nobody has obeyed yet
        self._report = False  # what the first learner has said with it
        self._save = 0
        self._games_left: list[Game] = []  # of this learner, which had no room in its messages
        self._without_batch: list[int] = []  # the learners for which the others wait
        self._waiting = WaitingTimes()
        self._end: _End | None = None

    def connect(
        self,
        own_news: Callable[[], LearnerMessage],
        receive: Callable[[Sequence[LearnerMessage]], None],
        checksum: Callable[[], int],
        announce: Callable[[str], None],
        wants_last_report: Callable[[bool], bool] = bool,
    ) -> None:
        """From now on, tell the others `own_news()`, and pass what they tell to `receive`.

        At each report, the `checksum()` of the weights is compared with theirs, and a learner for which the others
        wait is announced. `wants_last_report` of the first learner is asked at the end, when it is known whether the
        steps are used up.
        """
        self._run = _Run(own_news, receive, checksum, announce, wants_last_report)

    def goes_on(self, stops: bool, used_up: bool) -> bool:
        if (stops or used_up) and self._verdict is Verdict.WAIT:
            self._begin(LearnerMessage(ends=stops, used_up=used_up))
            while not self._finish(PATIENCE_SECONDS):
                pass
        if self._has_ended and self._end is None:
            self._end = self._settle(used_up)
        return not self._has_ended

    def finished(self, used_up: bool) -> bool:
        return used_up if self._end is None else self._end.finished

    def reports_at_end(self, wanted: bool) -> bool:
        return wanted if self._end is None else self._end.last_report

    def keep_alive(self) -> bool:
        if not self._has_ended:
            self._take_part(LearnerMessage(busy=True))
        return not self._has_ended

    def may_update(self, ready: bool) -> bool:
        if self._verdict is Verdict.WAIT:
            self._take_part(LearnerMessage(ready=ready))
        granted = self._verdict is Verdict.UPDATE
        if granted:
            self._verdict = Verdict.WAIT
        return granted

    def report_due(self, is_due: bool) -> bool:
        due, self._report = self._report, False
        return due

    def save_due(self, due: Callable[[], int]) -> int:
        save, self._save = self._save, 0
        return save

    def merged(self, report: Report, figures_of_batch: Sequence[str]) -> Report:
        if self._group.lost:
            return report
        own: Report = {**report, WAITS: self._waiting.fraction(), CHECKSUM: self._run.checksum()}
        with self._group.guarded():
            reports = self._group.of_all(own)
            slowest = self._waiting.slowest_learner([each[WAITS] for each in reports])
            if slowest is not None:
                self._run.announce(f"learner {slowest} is slower than the others, which wait for it")
            return merged_report(reports, figures_of_batch)

    # --- Exchanges ----------------------------------------------------------------------------------------------------

    @property
    def _has_ended(self) -> bool:
        return self._verdict in (Verdict.STOP, Verdict.FINISH)

    def _take_part(self, say: LearnerMessage) -> None:
        """Go on with the exchange under way; begin one if this learner is ready, or has been silent for long."""
        silent_for = time.monotonic() - self._exchanged_at
        if say.ready or silent_for > SIGN_OF_LIFE * self._group.timeout or self._exchange is not None:
            self._begin(say)
            self._finish(PATIENCE_SECONDS)

    def _begin(self, say: LearnerMessage) -> None:
        """Begin an exchange, unless one is under way, with the flags of `say` and the news of this learner."""
        if self._exchange is None:
            if say.ends or say.used_up or say.ready:
                say = self._run.own_news()._replace(ends=say.ends, used_up=say.used_up, ready=say.ready)
            self._games_left += say.games[MAX_GAMES:]
            self._exchange = self._group.send(say.encoded())

    def _finish(self, patience: float) -> bool:
        """Wait up to `patience` seconds for the messages of all. Returns whether the exchange is over."""
        begun = time.monotonic()
        assert self._exchange is not None
        with self._group.guarded():
            while (messages := self._exchange.messages()) is None:
                if time.monotonic() - begun > patience:
                    self._waiting.seconds += time.monotonic() - begun
                    return False
                time.sleep(NAP_SECONDS)
        self._exchanged_at = time.monotonic()
        self._waiting.seconds += self._exchanged_at - begun
        self._exchange = None
        self._conclude([LearnerMessage.decoded(message) for message in messages])
        return True

    def _conclude(self, news: list[LearnerMessage]) -> None:
        self._heard.append(news)
        verdict = decide(news)
        if verdict is Verdict.WAIT:  # what was heard counts from the next update on
            without = [rank for rank, each in enumerate(news) if not (each.ready or each.used_up or each.busy)]
            self._name_without_batch(without)
            return
        self._verdict, self._without_batch = verdict, []
        if verdict is Verdict.UPDATE and any(each.games_left for said in self._heard for each in said):
            own, self._games_left = self._games_left, []  # short games would otherwise wait longer and longer
            with self._group.guarded():
                self._heard.append(self._group.of_all(LearnerMessage(games=own)))
        heard, self._heard = self._heard, []
        self._run.receive([said[rank] for rank in self._others() for said in heard])
        self._report, self._save = any(said[0].report for said in heard), max(said[0].save for said in heard)

    def _settle(self, used_up: bool) -> _End:
        """At the end: tell what is not told yet, and agree on what the end is."""
        news = self._run.own_news()
        own = used_up, news._replace(games=[*self._games_left, *news.games])
        with self._group.guarded():
            told = self._group.of_all(own)
            self._run.receive([told[rank][1] for rank in self._others()])
            finished = self._verdict is Verdict.FINISH or all(used_up for used_up, _ in told)
            return _End(finished, bool(self._group.from_first(self._run.wants_last_report(finished))))

    def _others(self) -> list[int]:
        return [rank for rank in range(self._group.size) if rank != self._group.rank.index]

    def _name_without_batch(self, ranks: list[int]) -> None:
        if ranks and ranks != self._without_batch:
            seconds = SIGN_OF_LIFE * self._group.timeout
            named = " and ".join(map(str, ranks))
            self._run.announce(f"no batch has come for learner {named} in {seconds:.0f} seconds, so nobody updates")
        self._without_batch = ranks
