"""One report of a run from the reports of its learners."""

from collections.abc import Callable, Mapping, Sequence
from statistics import mean

from learners.group import LearnerLostError
from run_files.metrics import JsonValue, Report

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
