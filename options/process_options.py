"""The options of the processes of a run: workers, nodes of a cluster, and learners."""

from dataclasses import dataclass

from options.rules import CLUSTER, ON_OFF, Options, above, at_least, one_of, option, whole


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(Options):
    topic = "Workers"

    worker_count: int = option(
        0, whole(0), "Worker processes. 0: one per CPU core that this process may use.", aliases=("num_workers",)
    )
    envs_per_worker: int = option(
        32, whole(1), "Environments per worker, all stepped together.", aliases=("num_envs_per_worker",)
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
    )
    worker_timeout: float = option(
        120.0, above(0), "Seconds after which a worker is replaced that does not finish a step of its environments."
    )
    worker_restart_budget: int = option(100, whole(0), "Worker failures within ten minutes that a run tolerates.")


@dataclass(frozen=True, kw_only=True)
class ClusterOptions(Options):
    topic = "Cluster"

    cluster: str | None = option(
        None,
        CLUSTER,
        "Ray cluster whose other machines play too: auto (the one that this machine belongs to) or the host:port of "
        "its head. With --learners, its machines get the learners. Unset: only this machine plays.",
    )
    local_workers: bool = option(True, ON_OFF, "With --cluster: workers on the learner's machine, too.")
    node_workers: int = option(
        0, whole(0, 1024), "With --cluster: workers on each other node. 0: one per CPU that the node offers."
    )
    weights_interval: float = option(
        0.1, at_least(0), "With --cluster: least number of seconds between two sends of weights to the nodes."
    )
    weights_precision: str = option(
        "auto",
        one_of("auto", "float32", "bfloat16"),
        "With --cluster: number format of weights on their way to the nodes. auto: that of the workers' networks, "
        "float32 where a network keeps statistics.",
    )
    max_policy_lag: int = option(
        200, whole(0), "With --cluster: unrolls of other nodes that are more updates old are refused. 0: none is."
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
        "Learner processes that make each update together, each with its own device or cores, workers and replays: "
        "shares of --worker_count, --batch_size and the capacities. 0: the largest number that divides the batch "
        "evenly: on GPUs up to one for each, with 8 unrolls or more; else one for four CPU cores; with --cluster, 1.",
    )
    learner_restarts: int = option(
        10, whole(0), "With --learners: how often all learners start again from the last checkpoint when one is lost."
    )
