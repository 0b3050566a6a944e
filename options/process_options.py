"""The options of processes: workers, nodes of a cluster and learners of a run; and the runs of a sweep."""

from dataclasses import dataclass

from options.rules import (
    CLUSTER,
    PATH,
    Need,
    Options,
    UsageError,
    above,
    at_least,
    between,
    flag_given,
    one_of,
    option,
    switch,
    whole,
)


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(Options):
    topic = "Workers"

    worker_count: int = option(
        0,
        whole(0),
        "Worker processes. 0: one per CPU core that this process may use.",
        Need("--local_workers", lambda c: not c.cluster.all_workers_are_remote),
        aliases=("num_workers",),
    )
    envs_per_worker: int = option(
        16, whole(1), "Environments per worker, all stepped together.", aliases=("num_envs_per_worker",)
    )
    exploring_share: float = option(
        0.125,
        between(0, 0.5),
        "Share of the environments that explore while rewards are rare (fewer than one in 500 steps): now and then, "
        "they hold a random action for a random time. Games with held actions do not count in the statistics.",
        Need("--interaction=turns", lambda c: c.environment.interaction == "turns"),
    )
    inference: str = option(
        "worker",
        one_of("worker", "learner"),
        "Where actions are chosen: in each worker, or for all workers in one process on the learner's device.",
    )
    slots_per_worker: int = option(
        0,
        whole(0, 8),
        "Rounds of unrolls (one per environment) that a worker may be ahead of the learner. 0: one if "
        "the unrolls of the other workers keep the learner busy, else two.",
        Need("--noreproducible", lambda c: not c.run.reproducible),
    )
    worker_timeout: float = option(
        120.0, above(0), "A worker that does not finish a step of its environments within so many seconds is replaced."
    )
    worker_restart_budget: int = option(100, whole(0), "Worker failures within ten minutes that a run tolerates.")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Options):
    topic = "Cluster"

    cluster: str | None = option(
        None,
        CLUSTER,
        "Ray cluster whose other machines play too: auto (the one that this machine belongs to) or the host:port of "
        "its head. Unset: only this machine plays.",
    )
    local_workers: bool = switch(True, "With --cluster: workers on the learner's machine, too.", flag_given("cluster"))
    node_workers: int = option(
        0,
        whole(0, 1024),
        "With --cluster: workers on each other node. 0: one per CPU that the node offers.",
        flag_given("cluster"),
    )
    weights_precision: str = option(
        "auto",
        one_of("auto", "float32", "bfloat16"),
        "With --cluster: number format of weights on their way to the nodes. auto: that of the workers' networks, "
        "float32 where a network keeps statistics.",
        flag_given("cluster"),
    )
    max_policy_lag: int = option(
        200,
        whole(0),
        "With --cluster: unrolls of other nodes that are older than so many updates are refused. 0: none are.",
        flag_given("cluster"),
    )

    @property
    def all_workers_are_remote(self) -> bool:
        return self.cluster is not None and not self.local_workers


@dataclass(frozen=True, kw_only=True)
class LearnerOptions(Options):
    topic = "Learners"

    learners: int = option(
        1,
        whole(0, 1024),
        "Learner processes that make each update together. Each has its own device or cores, and an equal share of "
        "--worker_count, --batch_size and the capacities of replays. 0: one for each GPU, with at least 4 unrolls of "
        "the batch, or without a GPU one for four cores; fewer where the batch does not divide evenly; with --cluster, "
        "1.",
    )
    learner_restarts: int = option(
        10,
        whole(0),
        "With --learners: how often all learners start again from the last checkpoint when one is lost.",
        Need("--learners", lambda c: c.learners.learners != 1),
    )


@dataclass(frozen=True, kw_only=True)
class SweepOptions(Options):
    """Those of multi_train.py itself. The flags of its runs are those of main.py."""

    topic = "Sweep"

    sweep: str | None = option(
        None,
        PATH,
        "JSON file with the sweep. Unset: docs/sweeps/replays.json, which compares the four replays on Pong.",
    )
    sweep_dir: str | None = option(None, PATH, "Folder of the sweep and its runs. Unset: results/sweep_<name>.")
    jobs: int | None = option(
        None,
        whole(1),
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
        above(0),
        "With --cluster: CPUs of a node for each run. Unset: as many as it uses, --worker_count and --learner_threads "
        "for each of its --learners.",
    )
    job_gpus: float = option(0.0, at_least(0), "With --cluster: GPUs of a node for each run; 0.5 is half of one.")

    def _check_together(self) -> None:
        for name in ("job_cpus", "job_gpus"):
            if getattr(self, name) and not self.cluster:
                raise UsageError(f"--{name} has no effect without --cluster; --cluster=auto with it would be right.")
