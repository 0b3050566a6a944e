"""All options of a run: one frozen dataclass for each topic, and Config, which holds them all.

An option is declared once, as a field with its default, rule and help sentence; its flag has the name of the field.
Every Config is valid, whether it was made from a command line, from Python or from a checkpoint. Invalid values raise a
UsageError.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Self, get_type_hints

from options.batch_uses import ONCE, BatchUses
from options.command_line import flag_words, unknown_flag
from options.environment_options import EnvironmentOptions, RealtimeOptions
from options.flag_sets import dependent_defaults, merged
from options.learning_options import LossOptions, NetworkOptions, OptimizerOptions
from options.process_options import ClusterOptions, LearnerOptions, WorkerOptions
from options.replay_options import ReplaySpec, check_shares, divisible_batch, parse_replays, split_by_ratio
from options.rules import (
    ON_OFF,
    PATH,
    Options,
    Rule,
    UsageError,
    above,
    between,
    declared,
    matching,
    one_of,
    option,
    whole,
)

__all__ = [  # with the topics of other files
    "OPTIONS",
    "TOPICS",
    "CheckpointOptions",
    "ClusterOptions",
    "Config",
    "EnvironmentOptions",
    "LearnerOptions",
    "LossOptions",
    "NetworkOptions",
    "OptimizerOptions",
    "RealtimeOptions",
    "ReplayOptions",
    "ReportOptions",
    "RunOptions",
    "TestOptions",
    "WorkerOptions",
]


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    topic = "Run"

    op_mode: str = option(
        "train", one_of("train", "train_w_load", "test"), "Start a new run, continue a run, or score a policy."
    )
    load_model_url: str | None = option(
        None, PATH, "Run folder or checkpoint, to continue from with train_w_load or to score with test."
    )
    load_weights_only: bool = option(
        False,
        ON_OFF,
        "With train_w_load: start a new run, also of another game, from the weights of --load_model_url alone.",
    )
    environment_max_steps: int = option(
        6_000_000,
        whole(1, 10**15),
        "Agent steps of all environments together. Over them the learning rate falls to --lr_end_value, unless "
        "--lr_scheduler_steps says otherwise: to end earlier with the same curve, use --stop_at_return or CTRL+C.",
        aliases=("total_timesteps", "total_steps"),
    )
    stop_at_return: float | None = option(
        None,
        Rule(float, "be a number", math.isfinite, optional=True),
        "The run ends when the mean return of its latest --avg_buff_size games reaches this. Unset: only "
        "--environment_max_steps ends it.",
    )
    seed: int | None = option(
        None, whole(0, 2**31 - 1, optional=True), "Seed of all random streams. Unset: chosen at random."
    )
    reproducible: bool = option(False, ON_OFF, "Give bit-identical results for the same seed, at some cost in speed.")
    results_dir: str = option(
        "results",
        matching(r"(?s)[^-].*", "be a path that does not begin with a dash", is_path=True),
        "Folder for the folders of all runs.",
    )
    device: str = option(
        "auto",
        matching(r"auto|cpu|cuda(:[0-9]{1,3})?|mps", "be one of auto, cpu, cuda, cuda:N, mps"),
        "Device of the learner: cpu, cuda, cuda:N, mps, or auto (cuda if there is a GPU, else cpu).",
    )
    precision: str = option(
        "auto",
        one_of("auto", "float32", "bfloat16"),
        "Number format inside a network for pictures; others use float32. auto is bfloat16 on devices that are fast "
        "with it, else float32.",
    )
    cuda_graphs: bool = option(
        True,
        ON_OFF,
        "On an NVIDIA GPU, launch the kernels of a batch's gradients at once. Not with --reproducible, --loss=impact "
        "or a network of your own.",
    )
    learner_threads: int = option(
        0, whole(0), "CPU threads of the learner. 0: half of the cores, or at most 4 with a GPU."
    )

    def _check_together(self) -> None:
        if self.load_weights_only and (self.op_mode != "train_w_load" or not self.load_model_url):
            raise UsageError(
                "--load_weights_only needs --op_mode=train_w_load and --load_model_url, the run folder or checkpoint "
                "whose weights the new run starts from."
            )
        if self.op_mode == "train_w_load" and not self.load_model_url:
            raise UsageError(
                "--op_mode=train_w_load needs --load_model_url, the run folder or checkpoint to continue from."
            )
        if self.op_mode == "test" and not self.load_model_url:
            raise UsageError("--op_mode=test needs --load_model_url, the run folder or checkpoint to score.")
        if self.op_mode == "train" and self.load_model_url:
            raise UsageError("--load_model_url needs --op_mode=train_w_load or test; --op_mode=train starts a new run.")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(Options):
    topic = "Batches and replays"

    batch_size: int = option(8, whole(1), "Unrolls in one batch.")
    r_f_steps: int = option(20, whole(1), "Agent steps in one unroll.", aliases=("unroll_length", "num_steps"))
    replay_parameters: str = option(
        '[{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]',
        Rule(str, "be a JSON list, as one string"),
        "JSON list of the replays that fill a batch. Keys of an entry: type (queue, standard, attentive or "
        "elite), capacity (unrolls), sample_ratio (share of the batch, rounded to whole unrolls; the ratios add up "
        "to 1), and the keys of its type, see docs/options.md.",
    )
    training_fill_in_factor: float = option(
        0.1, between(0, 1), "Warm-up: fraction of every replay (queues excepted) that is filled before learning starts."
    )
    use_replay_compression: bool = option(
        False, ON_OFF, "Compress unrolls in replays (queues excepted) with lz4: many more fit, at little cost in speed."
    )
    lz4_compression_level: int = option(
        0,
        whole(0, 12),
        "Compression level of lz4, in replays and on the way from nodes of a cluster. 0 is fastest; 1 to 12 compress "
        "better and take longer.",
    )
    caching: bool = option(False, ON_OFF, "Prepare batches in the background, before the learner needs them.")
    cache_output_buffer_size: int = option(1, whole(1, 64), "With --caching: number of batches prepared ahead.")

    @cached_property
    def replays(self) -> tuple[ReplaySpec, ...]:
        return parse_replays(self.replay_parameters)

    @cached_property
    def shares(self) -> tuple[int, ...]:
        """Number of unrolls per batch from each replay; they add up to batch_size."""
        return split_by_ratio(self.batch_size, [replay.sample_ratio for replay in self.replays])

    @property
    def warmup_unrolls(self) -> tuple[int, ...]:
        """Number of unrolls in each replay before learning starts."""
        factor = self.training_fill_in_factor
        return tuple(r.warmup_unrolls(share, factor) for r, share in zip(self.replays, self.shares, strict=True))

    @property
    def longest_warmup(self) -> int:
        return max(self.warmup_unrolls)

    @property
    def batches_ahead(self) -> int:
        return self.cache_output_buffer_size if self.caching else 0

    @property
    def ranks_by_features(self) -> bool:
        """Whether any replay compares states by their features."""
        return any(replay.ranks_by_features for replay in self.replays)

    @property
    def queue_shares(self) -> tuple[int, ...]:
        return tuple(s for replay, s in zip(self.replays, self.shares, strict=True) if replay.type == "queue")

    def _check_together(self) -> None:
        check_shares(self.replays, self.shares, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    topic = "Checkpoints"

    save_model_period: int = option(2000, whole(1), "Updates between two checkpoints.")
    save_model_minutes: float = option(5.0, above(0), "Maximum number of minutes between two checkpoints.")
    keep_checkpoints: int = option(3, whole(1), "Number of latest checkpoints to keep, besides the best one.")
    save_replay: bool = option(
        False,
        ON_OFF,
        "Save the contents of replays at the end, on signals and at intervals; implied by --reproducible.",
    )
    save_replay_minutes: float = option(30.0, above(0), "Minutes between two saves of the replays.")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    topic = "Reports"

    report_period: int = option(10_000, whole(1), "Agent steps between two lines of metrics.jsonl.")
    avg_buff_size: int = option(
        100, whole(1, 10**6), "Number of latest games in return_mean, which decides which policy is best."
    )
    console: str = option(
        "auto", one_of("auto", "live", "plain", "off"), "Terminal output. auto: live on a terminal, plain elsewhere."
    )
    console_period: float = option(10.0, above(0), "Seconds between two lines of plain output.")
    curves: bool = option(True, ON_OFF, "Draw curves.png, in a separate process of the lowest priority.")
    tensorboard: bool = option(False, ON_OFF, "Write event files for TensorBoard, including the videos of the run.")
    wandb: bool = option(False, ON_OFF, "Send the reports to Weights & Biases.", aliases=("track",))
    wandb_project: str = option(
        "rl-platform", matching(r"\w[\w./-]*", "be a name such as rl-platform"), "With --wandb: project of the reports."
    )
    metrics_port: int = option(0, whole(0, 65535), "Port on which Prometheus reads the newest report. 0: no port.")
    metrics_host: str = option(
        "127.0.0.1", matching(r"[\w:][\w.:-]*", "be an address such as 127.0.0.1"), "Address of --metrics_port."
    )


@dataclass(frozen=True, kw_only=True)
class TestOptions(Options):
    topic = "Tests and evaluation"
    __test__ = False  # otherwise pytest would collect the class as tests

    test_episode_count: int = option(100, whole(1, 10**6), "Number of games in a test.")
    test_policy: str = option(
        "sampled",
        one_of("sampled", "greedy"),
        "Actions in a test or evaluation: sampled as in training, or always the most likely one (greedy).",
    )
    render: bool = option(
        False,
        ON_OFF,
        "Test: record videos of the best, median and worst of the first games, and show a window if there is "
        "a display. Training: record a video of the median game of each evaluation (needs --eval_period).",
    )
    eval_period: int = option(0, whole(0), "Agent steps between two evaluations during training. 0: no evaluations.")
    eval_episode_count: int = option(10, whole(1, 10**6), "Number of games in one evaluation.")


@dataclass(frozen=True, kw_only=True)
class Config:
    """All options of a run, by topic."""

    run: RunOptions = field(default_factory=RunOptions)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
    realtime: RealtimeOptions = field(default_factory=RealtimeOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    learners: LearnerOptions = field(default_factory=LearnerOptions)
    replay: ReplayOptions = field(default_factory=ReplayOptions)
    network: NetworkOptions = field(default_factory=NetworkOptions)
    loss: LossOptions = field(default_factory=LossOptions)
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    checkpoint: CheckpointOptions = field(default_factory=CheckpointOptions)
    report: ReportOptions = field(default_factory=ReportOptions)
    test: TestOptions = field(default_factory=TestOptions)

    def __post_init__(self) -> None:
        if self.workers.inference == "learner" and self.run.device == "mps":
            raise UsageError(
                "--inference=learner needs cpu or cuda, not --device=mps; --inference=worker would be right."
            )
        if self.environment.in_real_time:
            self._check_real_time()
        kinds = [replay.dist_function for replay in self.replay.replays if replay.ranks]
        if self.network.use_lstm and "kl_div" in kinds:
            raise UsageError(
                "--replay_parameters: kl_div compares policies state by state, and with --use_lstm a policy depends on "
                "more than the state; ln_norm or cos_dist would be right."
            )

        if self.learners.learners > 1 and self.run.op_mode != "test":
            self._check_learners(self.learners.learners)

    def _check_learners(self, learners: int) -> None:
        if self.cluster.cluster is not None:
            self._check_placed_learners(learners)
        if 0 < self.workers.worker_count < learners:
            raise UsageError(
                f"--worker_count={self.workers.worker_count} leaves some of --learners={learners} without a worker; "
                f"{learners} or more would be right."
            )
        if any(share % learners for share in self.replay.shares):
            right = divisible_batch(self.replay.batch_size, [r.sample_ratio for r in self.replay.replays], learners)
            raise UsageError(
                f"--batch_size={self.replay.batch_size} gives the replays {_in_words(self.replay.shares)} unrolls of a "
                f"batch, which --learners={learners} cannot divide evenly; "
                f"--batch_size={right} would be right."
            )

    def _check_placed_learners(self, learners: int) -> None:
        """The other options of a cluster are about nodes that play for one learner."""
        for name, item in declared(ClusterOptions).items():
            value = getattr(self.cluster, name)
            if name != "cluster" and value != item.default:
                (given,), (right,) = flag_words({name: value}), flag_words({name: item.default})
                raise UsageError(
                    f"{given} has no meaning with --cluster and --learners={learners}, of which each plays with the "
                    f"workers of its own node; {right} would be right."
                )

    def _check_real_time(self) -> None:
        if self.run.reproducible:
            raise UsageError(
                "--interaction=realtime plays by the clock, which is never the same twice; without --reproducible "
                "would be right."
            )
        if self.workers.inference == "learner":
            raise UsageError(
                "--interaction=realtime has inference processes of its own; --inference=worker would be right."
            )
        if self.network.use_lstm and self.realtime.inference_processes != 1:
            raise UsageError(
                f"--inference_processes={self.realtime.inference_processes} may start several processes, each with "
                "another memory; with --use_lstm, 1 would be right."
            )

    @property
    def seed(self) -> int:
        """The seed. It is set once `settle_seed` (machine/machine_setup.py) has run."""
        assert self.run.seed is not None
        return self.run.seed

    @property
    def saves_replays(self) -> bool:
        return self.checkpoint.save_replay or self.run.reproducible

    @property
    def batch_uses(self) -> BatchUses:
        """How often each batch of new unrolls is used; without a queue, draws do not depend on what is new."""
        return self.loss.batch_uses if self.replay.queue_shares else ONCE

    @property
    def fresh_unrolls_per_batch(self) -> int:
        """Number of new unrolls in a batch that is used for the first time."""
        # Every unroll passes through every queue, and all queues have the same share.
        return max(self.replay.queue_shares, default=self.replay.batch_size)

    @property
    def fresh_unrolls_per_update(self) -> float:
        """Number of new unrolls that one update needs in the mean."""
        return self.fresh_unrolls_per_batch / self.batch_uses.uses

    @property
    def agent_steps_per_update(self) -> float:
        return self.fresh_unrolls_per_update * self.replay.r_f_steps

    @property
    def _batches_to_learn(self) -> int:
        """New batches that are drawn before the first update."""
        return self.batch_uses.batches_for(1 + self.replay.batches_ahead)

    @property
    def steps_to_learn(self) -> int:
        """Agent steps of a new run before its first update."""
        each, fill = self.fresh_unrolls_per_batch, self.replay.longest_warmup
        unrolls = each * (self._batches_to_learn - 1)
        unrolls += fill + each if self.replay.queue_shares else max(fill, each)
        return unrolls * self.replay.r_f_steps

    @property
    def planned_updates(self) -> int:
        """Number of updates that environment_max_steps is enough for; at least 1."""
        length = self.replay.r_f_steps
        steps = -(-self.run.environment_max_steps // length) * length  # the last unroll is complete
        steps_per_batch = self.fresh_unrolls_per_batch * length
        batches = max(0, self._batches_to_learn + (steps - self.steps_to_learn) // steps_per_batch)
        return max(1, self.batch_uses.updates_of(batches) - self.replay.batches_ahead)

    def flags(self) -> dict[str, Any]:
        """All values by flag name, ready for JSON. from_flags is the inverse."""
        return {
            item.name: getattr(getattr(self, topic), item.name)
            for topic, options in TOPICS.items()
            for item in fields(options)
        }

    @classmethod
    def from_flags(cls, values: Mapping[str, Any]) -> Self:
        """Make a Config from values by flag name; names that are left out get the default of their environment, the
        value of the protocol or of the loss, or the declared default."""
        for name in values:
            if name not in OPTIONS:
                raise unknown_flag(name, OPTIONS)
        values = dependent_defaults(values) | dict(values)
        topics: dict[str, Any] = {
            topic: options(**{item.name: values[item.name] for item in fields(options) if item.name in values})
            for topic, options in TOPICS.items()
        }
        return cls(**topics)

    def replace_flags(self, **overrides: Any) -> Self:
        return self.from_flags(merged(self.flags(), overrides))


def _in_words(numbers: tuple[int, ...]) -> str:
    return " and ".join(filter(None, (", ".join(map(str, numbers[:-1])), str(numbers[-1]))))


TOPICS: dict[str, type[Options]] = get_type_hints(Config)
OPTIONS: dict[str, dataclasses.Field[Any]] = declared(*TOPICS.values())
