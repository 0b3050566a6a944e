"""What this learner tells the other learners of a run, and what it does with what they tell."""

from collections.abc import Callable, Sequence

from agents.learner import Learner
from learners.agreement import Agreement, GroupAgreement
from learners.group import LearnerGroup, OneLearner
from learners.messages import LearnerMessage
from learners.rank import LearnerRank
from learners.shares import equal_shares
from replay.batch_mix import Mix
from training.checkpoint_saver import CheckpointSaver
from training.counters.progress import Progress
from training.reporter import Reporter


def make_agreement(learners: OneLearner) -> Agreement:
    """The agreement with the other learners; one learner agrees with itself."""
    return GroupAgreement(learners) if isinstance(learners, LearnerGroup) else Agreement()


def share_unrolls(learners: OneLearner, progress: Progress, mix: Mix) -> None:
    """Divide the unrolls of this run among the learners, so that none runs out of batches much before the others.

    A resumed learner may have more in its queue than another one, or less: replays of a learner that was lost are
    empty. The number of unrolls is that of the first learner, whose steps are those of the run.
    """
    with learners.guarded():
        told = learners.of_all((progress.unrolls_of_run, mix.unrolls_waiting()))
    waiting = [each for _, each in told]
    progress.own_share = equal_shares(told[0][0], waiting)[learners.rank.index]


def connect(
    agreement: Agreement,
    rank: LearnerRank,
    learner: Learner,
    progress: Progress,
    reporter: Reporter,
    saver: CheckpointSaver,
    announce: Callable[[str], None],
) -> None:
    """From now on, the learners know of each other what they have played; the first one decides when all save."""
    if not isinstance(agreement, GroupAgreement):
        return

    def own_news() -> LearnerMessage:
        news = progress.take_unsent()._replace(updates=learner.updates)
        if not rank.is_first:
            return news
        return news._replace(goal_reached=progress.goal_reached, report=reporter.is_due, save=saver.due())

    def receive(news: Sequence[LearnerMessage]) -> None:
        reporter.games_ended(progress.count_others(news))
        # The latest games are not the same ones for all, so the goal is the first learner's to judge.
        progress.goal_reached = progress.goal_reached or any(each.goal_reached for each in news)

    def wants_last_report(finished: bool) -> bool:
        return progress.reports_at_end(finished, saver.config.run.reproducible)

    agreement.connect(own_news, receive, learner.weights_checksum, announce, wants_last_report)
