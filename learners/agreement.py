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

from learners.group import Exchange, LearnerGroup, LearnerLostError
from learners.merged_report import CHECKSUM, merged_report, slowest_learner
from learners.messages import MAX_GAMES, Game, LearnerMessage
from run_files.metrics import Report

PATIENCE_SECONDS = 0.002  # a learner waits so long for the others before it looks after its workers again
NAP_SECONDS = 0.0001
SIGN_OF_LIFE = 1 / 3  # of the time after which a silent learner is lost


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


class GroupAgreement(Agreement):
    """Decides together with the other learners."""

    alone = False

    def __init__(self, group: LearnerGroup) -> None:
        self._group = group
        self._own_news: Callable[[], LearnerMessage] = LearnerMessage
        self._receive: Callable[[Sequence[LearnerMessage]], None] = lambda news: None
        self._checksum: Callable[[], int] = int
        self._announce: Callable[[str], None] = lambda message: None
        self._wants_last_report: Callable[[bool], bool] = bool
        self._slowest: int | None = None
        self._without_batch: list[int] = []  # those of the latest sign of life
        self._parts = [1] * group.size  # of a batch, for each learner
        self._exchange: Exchange | None = None
        self._has_ended = self._is_settled = self._update_granted = False
        self._finished = self._last_report = False  # known once all is settled
        self._games_left: list[Game] = []  # of this learner, which had no room in its messages
        self._heard: list[list[LearnerMessage]] = []  # of all learners, since the latest update
        self._report = False
        self._save = 0
        self._exchanged_at = time.monotonic()
        self._waited = 0.0  # seconds since the latest report, for the others
        self._reported_at = time.monotonic()

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
        have begun to wait is announced. `wants_last_report` of the first learner is asked at the end, when it is known
        whether the steps are used up.
        """
        self._own_news, self._receive, self._checksum, self._announce = own_news, receive, checksum, announce
        self._wants_last_report = wants_last_report

    def goes_on(self, stops: bool, used_up: bool) -> bool:
        if (stops or used_up) and not (self._has_ended or self._update_granted):
            self._begin(ends=stops, used_up=used_up)
            while not self._finish(PATIENCE_SECONDS):
                pass
        if self._has_ended and not self._is_settled:
            self._settle(used_up)
        return not self._has_ended

    def finished(self, used_up: bool) -> bool:
        return self._finished if self._is_settled else used_up

    def reports_at_end(self, wanted: bool) -> bool:
        return self._last_report if self._is_settled else wanted

    def keep_alive(self) -> bool:
        if not self._has_ended:
            self._take_part(busy=True)
        return not self._has_ended

    def may_update(self, ready: bool) -> bool:
        if not self._update_granted:
            self._take_part(ready=ready)
        granted, self._update_granted = self._update_granted, False
        return granted

    def _take_part(self, *, ready: bool = False, busy: bool = False) -> None:
        """Go on with the exchange under way; begin one if this learner is ready, or has been silent for long."""
        silent_for = time.monotonic() - self._exchanged_at
        if ready or silent_for > SIGN_OF_LIFE * self._group.timeout or self._exchange is not None:
            self._begin(ready=ready, busy=busy)
            self._finish(PATIENCE_SECONDS)

    def _settle(self, used_up: bool) -> None:
        """At the end: tell what is not told yet, and agree on what the end is."""
        news = self._own_news()
        own = used_up, news._replace(games=[*self._games_left, *news.games])
        with self._group.guarded():
            told = self._group.of_all(own)
            self._receive([news for rank, (_, news) in enumerate(told) if rank != self._group.rank.index])
            self._finished = self._finished or all(used_up for used_up, _ in told)
            self._last_report = bool(self._group.from_first(self._wants_last_report(self._finished)))
        self._is_settled = True

    def report_due(self, is_due: bool) -> bool:
        due, self._report = self._report, False
        return due

    def save_due(self, due: Callable[[], int]) -> int:
        save, self._save = self._save, 0
        return save

    def merged(self, report: Report, figures_of_batch: Sequence[str]) -> Report:
        if self._group.lost:
            return report
        now = time.monotonic()
        waits = self._waited / max(now - self._reported_at, 1e-9)
        own: Report = {**report, "wait_for_learners_fraction": waits, CHECKSUM: self._checksum()}
        self._waited, self._reported_at = 0.0, now
        with self._group.guarded():
            reports = self._group.of_all(own)
            self._name_slowest([each["wait_for_learners_fraction"] for each in reports])
            self._name_divided([each.get("batch_parts", 1) for each in reports])
            return merged_report(reports, figures_of_batch)

    def _name_slowest(self, waits: Sequence[float]) -> None:
        slowest = slowest_learner(waits)
        if slowest is not None and slowest != self._slowest:
            self._announce(f"learner {slowest} is slower than the others, which wait for it")
        self._slowest = slowest

    def _name_divided(self, parts: Sequence[int]) -> None:
        """Tell which other learners divide their batches; this one has said so already."""
        for rank, (before, now) in enumerate(zip(self._parts, parts, strict=True)):
            if now > before and rank != self._group.rank.index:
                self._announce(f"the GPU's memory of learner {rank} is too small: its batches have {now} parts")
        self._parts = list(parts)

    def _name_without_batch(self, ranks: list[int]) -> None:
        if ranks and ranks != self._without_batch:
            seconds = SIGN_OF_LIFE * self._group.timeout
            named = " and ".join(map(str, ranks))
            self._announce(f"no batch has come for learner {named} in {seconds:.0f} seconds, so nobody updates")
        self._without_batch = ranks

    def _begin(self, *, ends: bool = False, used_up: bool = False, ready: bool = False, busy: bool = False) -> None:
        if self._exchange is None:
            has_news = ends or used_up or ready
            news = self._own_news() if has_news else LearnerMessage()
            news = news._replace(ends=ends, used_up=used_up, ready=ready, busy=busy)
            self._games_left += news.games[MAX_GAMES:]
            self._exchange = self._group.send(news.encoded())

    def _finish(self, patience: float) -> bool:
        """Wait up to `patience` seconds for the messages of all. Returns whether the exchange is over."""
        begun = time.monotonic()
        assert self._exchange is not None
        with self._group.guarded():
            while (messages := self._exchange.messages()) is None:
                if time.monotonic() - begun > patience:
                    self._waited += time.monotonic() - begun
                    return False
                time.sleep(NAP_SECONDS)
        self._exchanged_at = time.monotonic()
        self._waited += self._exchanged_at - begun
        self._exchange = None
        self._decide([LearnerMessage.decoded(message) for message in messages])
        return True

    def _decide(self, news: list[LearnerMessage]) -> None:
        updates = {each.updates for each in news if each.ends or each.used_up or each.ready}
        if len(updates) > 1:
            raise LearnerLostError(f"the learners have made {', '.join(map(str, sorted(updates)))} updates")
        self._heard.append(news)
        # A learner without steps waits for those that still receive some: all steps of the run are received.
        all_said = all(each.used_up or each.ready for each in news)
        self._finished = all_said and any(each.used_up for each in news)
        self._has_ended = self._finished or any(each.ends for each in news)
        if not self._has_ended and not all_said:
            without = [rank for rank, each in enumerate(news) if not (each.ready or each.used_up or each.busy)]
            self._name_without_batch(without)
            return
        self._without_batch = []
        self._update_granted = not self._has_ended
        if self._update_granted and any(each.games_left for said in self._heard for each in said):
            self._heard.append(self._games_without_room())
        heard, self._heard = self._heard, []
        others = [rank for rank in range(self._group.size) if rank != self._group.rank.index]
        self._receive([each[rank] for rank in others for each in heard])
        self._report, self._save = any(each[0].report for each in heard), max(each[0].save for each in heard)

    def _games_without_room(self) -> list[LearnerMessage]:
        """Of all learners. Short games would otherwise wait longer and longer."""
        own, self._games_left = self._games_left, []
        with self._group.guarded():
            return self._group.of_all(LearnerMessage(games=own))
