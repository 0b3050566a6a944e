"""The options of multi_train.py itself. The flags of its runs are those of main.py."""

import math
from dataclasses import dataclass

from options.rules import CLUSTER, PATH, Options, Rule, UsageError, at_least, option, whole


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Options):
    topic = "Sweep"

    sweep: str | None = option(None, PATH, "JSON file with the sweep, instead of the one in multi_train.py.")
    sweep_dir: str | None = option(None, PATH, "Folder of the sweep and its runs. Unset: results/sweep_<name>.")
    jobs: int | None = option(
        None,
        whole(1, optional=True),
        "Runs at a time. Set --worker_count and --learner_threads too: each run uses that many cores. Unset: 1; with "
        "--cluster, as many as its nodes have room for.",
    )
    cluster: str | None = option(
        None,
        CLUSTER,
        "Ray cluster whose nodes run the configurations: auto (the one that this machine belongs to) or the host:port "
        "of its head. Unset: this machine runs them.",
    )
    job_cpus: float | None = option(
        None,
        Rule(float, "be a number above 0", lambda v: 0 < v < math.inf, optional=True),
        "With --cluster: CPUs of a node for each run. Unset: as many as it uses, --worker_count and --learner_threads "
        "for each of its --learners.",
    )
    job_gpus: float = option(0.0, at_least(0), "With --cluster: GPUs of a node for each run, or the part of one.")

    def _check_together(self) -> None:
        for name in ("job_cpus", "job_gpus"):
            if getattr(self, name) and not self.cluster:
                raise UsageError(f"--{name} has no effect without --cluster; --cluster=auto with it would be right.")
