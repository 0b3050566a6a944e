"""What a run can be told: frozen option dataclasses, and the flags derived from their fields.

An option is declared once, as a field with its default, its help sentence and its rule. A Config that exists is valid,
however it was made (command line, Python, checkpoint); a bad one ends in a UsageError of one sentence.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, get_type_hints

from options.replay_options import ReplaySpec, did_you_mean, parse_replays, split_by_ratio
from options.rules import (
    FRACTION_BELOW_ONE,
    ON_OFF,
    RESOLUTION,
    Options,
    Rule,
    UsageError,
    above,
    at_least,
    between,
    matching,
    one_of,
    option,
    whole,
)

# --- Rules: what one value may be -------------------------------------------------------------------------------------


MOST_CHANNELS = 128  # that OpenCV merges into one observation


# --- Options, topic by topic ------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    topic = "Run"

    op_mode: str = option(
        "train", one_of("train", "train_w_load", "test"), "Begin a new run, go on with an older one, or score an agent."
    )
    load_model_url: str | None = option(
        None,
        Rule(str, "be a path", bool, optional=True),
        "The run folder, checkpoint folder or checkpoint to go on from with train_w_load, or to play with in a test.",
    )
    environment_max_steps: int = option(6_000_000, whole(1), "Agent steps of all environments together, over the run.")
    seed: int | None = option(None, whole(0, 2**31 - 1, optional=True), "Start of all random streams; unset draws one.")
    reproducible: bool = option(False, ON_OFF, "Make runs of the same seed equal bit for bit, at some cost in speed.")
    results_dir: str = option(
        "results", matching(r"(?s)[^-].*", "be a path that begins with no dash"), "Folder for the folders of all runs."
    )
    device: str = option(
        "auto",
        matching(r"auto|cpu|cuda(:[0-9]{1,3})?|mps", "be one of auto, cpu, cuda, cuda:N, mps"),
        "Where the learner computes: auto (cuda where there is one, else cpu), cpu, cuda, cuda:N or mps.",
    )
    precision: str = option(
        "auto", one_of("auto", "float32", "bfloat16"), "Numbers inside the network; auto is bfloat16 where it is fast."
    )
    learner_threads: int = option(0, whole(0), "CPU threads of the learner; 0 chooses from the cores.")

    def _check_together(self) -> None:
        if self.op_mode == "train_w_load" and not self.load_model_url:
            raise UsageError(
                "--op_mode=train_w_load needs --load_model_url, the run folder or checkpoint to go on from."
            )
        if self.op_mode == "test" and not self.load_model_url:
            raise UsageError("--op_mode=test needs --load_model_url, the run folder or checkpoint to play with.")
        if self.op_mode == "train" and self.load_model_url:
            raise UsageError("--load_model_url needs --op_mode=train_w_load or test; --op_mode=train begins a new run.")


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions(Options):
    topic = "Environment"

    env: str = option(
        "PongNoFrameskip-v4", matching(r"\w[\w/:.-]*", "be an id such as PongNoFrameskip-v4"), "Game to play."
    )
    skipped_frames: int = option(4, whole(1, 100), "Game frames that one agent step repeats its action for.")
    frames_stacked: int = option(4, whole(1, 64), "Latest frames that the policy sees at once.")
    grayscaling_frames: bool = option(True, ON_OFF, "Show frames in gray instead of in colour.")
    frame_scale_resolution: str = option(
        "84,84",
        RESOLUTION,
        'Size that frames are scaled to, as "height,width".',
    )
    noop_threshold: int = option(30, whole(0, 1000), "Most no-op frames at the start of a game; 0 starts without any.")
    episodic_life: bool = option(True, ON_OFF, "Let a lost life end an episode for the learner.")
    fire_on_life_loss: bool = option(
        False, ON_OFF, "Without episodic_life: press FIRE after a lost life where a game waits for it; tests always do."
    )
    reward_clipping_method: str = option(
        "abs_one_sign",
        one_of("abs_one_sign", "abs_one_clamp", "soft_asymmetric", "none"),
        "How rewards are bounded for the learner; reported returns never are.",
    )
    repeat_action_probability: float = option(0.0, between(0, 1), "Sticky actions: chance to repeat the last action.")
    max_game_frames: int = option(108_000, whole(1, 10**9), "Game frames after which a game is cut off.")

    @property
    def resolution(self) -> tuple[int, int]:
        """(height, width) of the frames that the policy sees."""
        height, width = self.frame_scale_resolution.split(",")
        return int(height), int(width)

    def _check_together(self) -> None:
        if not self.grayscaling_frames and self.frames_stacked > MOST_CHANNELS // 3:
            raise UsageError(
                f"--frames_stacked={self.frames_stacked} is too many for frames in colour; at most "
                f"{MOST_CHANNELS // 3} with --nograyscaling_frames would be right."
            )


@dataclass(frozen=True, kw_only=True)
class WorkerOptions(Options):
    topic = "Workers"

    worker_count: int = option(0, whole(0), "Worker processes; 0 is one for each core that this process may use.")
    envs_per_worker: int = option(32, whole(1), "Environments that each worker steps together.")
    inference: str = option(
        "worker",
        one_of("worker", "learner"),
        "Who chooses actions: each worker by itself, or one process for all of them on the learner's device.",
    )
    slots_per_worker: int = option(
        0,
        whole(0, 8),
        "Rounds of unrolls that a worker may be ahead of the learner; 0 is one where those of the others keep the "
        "learner busy, else two.",
    )
    worker_timeout: float = option(120.0, above(0), "Seconds without a sign of life until a worker is replaced.")
    worker_restart_budget: int = option(100, whole(0), "Deaths of workers within ten minutes that a run puts up with.")


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(Options):
    topic = "Batches and replays"

    batch_size: int = option(8, whole(1), "Unrolls in one batch.")
    r_f_steps: int = option(20, whole(1), "Agent steps in one unroll.")
    replay_parameters: str = option(
        '[{"type": "queue", "capacity": 1, "sample_ratio": 1.0}]',
        Rule(str, "be a JSON list, as one string"),
        "JSON list of the replays that fill a batch: type (queue, standard, attentive or elite), capacity in unrolls, "
        "sample_ratio, the part of a batch (the ratios add up to 1), and keys of each type, see docs/replays.md.",
    )
    training_fill_in_factor: float = option(
        0.1, between(0, 1), "Part of every replay but the queues that is filled before learning starts."
    )
    use_replay_compression: bool = option(
        False,
        ON_OFF,
        "Keep unrolls compressed by lz4 in every replay but the queues: far more of them fit, at little cost.",
    )
    lz4_compression_level: int = option(
        0, whole(0, 12), "How hard the compression tries: 0 is fast; 1 to 12 take ever longer for smaller unrolls."
    )
    caching: bool = option(False, ON_OFF, "Mix batches ahead in the background; each is then drawn some updates early.")
    cache_output_buffer_size: int = option(1, whole(1, 64), "Batches that caching mixes ahead.")

    @cached_property
    def replays(self) -> tuple[ReplaySpec, ...]:
        return parse_replays(self.replay_parameters)

    @cached_property
    def shares(self) -> tuple[int, ...]:
        """Unrolls of a batch that come from each replay; they add up to batch_size."""
        return split_by_ratio(self.batch_size, [replay.sample_ratio for replay in self.replays])

    @property
    def warmup_unrolls(self) -> tuple[int, ...]:
        """Unrolls that each replay holds before learning starts; none that queues hold up."""
        factor = Fraction(str(self.training_fill_in_factor))  # as it was written: 0.29 × 100 is 28.999… in binary
        return tuple(
            0 if replay.type == "queue" else max(share, math.ceil(factor * replay.capacity))
            for replay, share in zip(self.replays, self.shares, strict=True)
        )

    @property
    def longest_warmup(self) -> int:
        return max(self.warmup_unrolls)

    @property
    def batches_ahead(self) -> int:
        return self.cache_output_buffer_size if self.caching else 0

    @property
    def ranks_by_features(self) -> bool:
        """Whether a replay compares states by features."""
        return any(r.ranks and r.dist_function != "kl_div" for r in self.replays)

    @property
    def queue_shares(self) -> tuple[int, ...]:
        return tuple(s for replay, s in zip(self.replays, self.shares, strict=True) if replay.type == "queue")

    def _check_together(self) -> None:
        for entry, (replay, share) in enumerate(zip(self.replays, self.shares, strict=True), start=1):
            if share == 0:
                enough = math.ceil(1 / min(Fraction(str(r.sample_ratio)) for r in self.replays))
                raise UsageError(
                    f"--batch_size={self.batch_size} is too small for --replay_parameters: entry {entry} would get no "
                    f"unroll of a batch; {enough} or more would be right."
                )
            if replay.type != "queue" and replay.capacity < share:
                raise UsageError(
                    f"--replay_parameters: entry {entry} has a capacity of {replay.capacity}, but its share of a batch "
                    f"is {share}; at least {share} would be right."
                )
        if len(set(self.queue_shares)) > 1:
            raise UsageError(
                "--replay_parameters: every unroll passes once through every queue, so all queues need the same share "
                f"of a batch, not {' and '.join(map(str, self.queue_shares))} unrolls."
            )


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(Options):
    topic = "Network"

    network: str = option("nature", one_of("nature", "impala_shallow", "impala_deep", "conv3"), "Shape of the network.")
    use_lstm: bool = option(False, ON_OFF, "Put an LSTM between the convolutions and the heads.")
    lstm_size: int = option(256, whole(1, 8192), "Units of the LSTM.")
    feature_out_layer_size: int = option(
        64, whole(1, 4096), "Numbers that attentive and elite replay compare states by: a projection of the last layer."
    )


@dataclass(frozen=True, kw_only=True)
class LossOptions(Options):
    topic = "Losses"

    gamma: float = option(0.99, between(0, 1), "Discount of each later agent step.")
    rho_const: float = option(1.0, above(0, 100_000), "V-trace: upper bound of the importance weight of each error.")
    c_const: float = option(1.0, above(0, 100_000), "V-trace: upper bound of the importance weights along the trace.")
    trace_lambda: float = option(0.95, between(0, 1), "V-trace: factor on every step of the trace.")
    policy_gradient_loss_weight: float = option(1.0, at_least(0), "Weight of the policy gradient loss.")
    value_loss_weight: float = option(0.25, at_least(0), "Weight of the value loss, which is half the squared error.")
    entropy_loss_weight: float = option(0.003, at_least(0), "Weight of the reward for entropy.")
    proximal_loss_weight: float = option(
        0.05, at_least(0), "Weight of the KL divergence from the policy that played to today's, on fresh data."
    )
    loss_reduction: str = option("mean", one_of("mean", "sum"), "Whether losses are averaged or summed over a batch.")
    use_policy_cloning_loss: bool = option(True, ON_OFF, "CLEAR: hold the policy near the one replayed.")
    policy_cloning_loss_weight: float = option(0.01, at_least(0), "Weight of the policy cloning loss.")
    use_value_cloning_loss: bool = option(True, ON_OFF, "CLEAR: hold the values near the ones replayed.")
    value_cloning_loss_weight: float = option(0.005, at_least(0), "Weight of the value cloning loss.")
    use_kl_mask: bool = option(False, ON_OFF, "LASER: leave out states whose acting policy is too far from today's.")
    kl_div_threshold: float = option(0.3, above(0), "LASER: KL divergence from which a state is left out.")

    def _check_together(self) -> None:
        if self.rho_const < self.c_const:
            raise UsageError(f"--rho_const must be at least --c_const, but {self.rho_const} is below {self.c_const}.")


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    topic = "Optimizer"

    optimizer: str = option("rmsprop", one_of("rmsprop", "adam"), "How gradients become steps.")
    lr: float = option(1e-3, above(0, 100), "Learning rate at the start of the schedule.")
    lr_warmup_updates: int = option(
        300,
        whole(0),
        "First updates, at most a tenth of all, over which the learning rate rises to its schedule.",
    )
    rmsprop_alpha: float = option(0.99, FRACTION_BELOW_ONE, "RMSProp: decay of the mean square.")
    rmsprop_eps: float = option(1e-5, above(0), "RMSProp: added to the divisor.")
    rmsprop_momentum: float = option(0.0, FRACTION_BELOW_ONE, "RMSProp: momentum.")
    adam_beta1: float = option(0.9, FRACTION_BELOW_ONE, "Adam: decay of the mean.")
    adam_beta2: float = option(0.999, FRACTION_BELOW_ONE, "Adam: decay of the mean square.")
    adam_eps: float = option(1e-5, above(0), "Adam: added to the divisor.")
    gradient_clip_by_norm_threshold: float = option(0.5, at_least(0), "Longest gradient; 0 leaves it as it is.")
    lr_scheduler_steps: int = option(0, whole(0), "Updates until lr_end_value; 0 is all that the run plans.")
    lr_end_value: float = option(0.0, between(0, 100), "Learning rate at the end of the schedule.")
    lr_power: float = option(1.0, above(0), "Exponent of the decay; 1 is a straight line.")


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    topic = "Checkpoints"

    save_model_period: int = option(2000, whole(1), "Updates between two checkpoints.")
    save_model_minutes: float = option(5.0, above(0), "Minutes after which a checkpoint is written in any case.")
    keep_checkpoints: int = option(3, whole(1), "Latest checkpoints that are kept, besides the best one.")
    save_replay: bool = option(
        False,
        ON_OFF,
        "Save what the replays hold, at the end, on signals and from time to time; reproducible implies it.",
    )
    save_replay_minutes: float = option(30.0, above(0), "Minutes between two savings of the replays.")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Options):
    topic = "Reports"

    report_period: int = option(10_000, whole(1), "Agent steps between two lines of metrics.jsonl.")
    avg_buff_size: int = option(100, whole(1, 10**6), "Latest games that return_mean, and the best policy, go by.")
    console: str = option(
        "auto", one_of("auto", "live", "plain", "off"), "Terminal output; auto is live on a terminal, plain elsewhere."
    )
    console_period: float = option(10.0, above(0), "Seconds between two plain lines.")
    curves: bool = option(True, ON_OFF, "Draw curves.png, in a process of its own at the lowest priority.")
    tensorboard: bool = option(False, ON_OFF, "Write event files for TensorBoard, with the run's videos.")
    wandb: bool = option(False, ON_OFF, "Send the reports to Weights & Biases.")
    wandb_project: str = option(
        "rl-platform", matching(r"\w[\w./-]*", "be a name such as rl-platform"), "With wandb: the project they go to."
    )
    metrics_port: int = option(0, whole(0, 65535), "Port at which Prometheus reads the newest report; 0 opens none.")
    metrics_host: str = option(
        "127.0.0.1", matching(r"[\w:][\w.:-]*", "be an address such as 127.0.0.1"), "Address to open that port at."
    )


@dataclass(frozen=True, kw_only=True)
class TestOptions(Options):
    topic = "Tests and evaluation"
    __test__ = False  # or pytest takes it for a collection of tests

    test_episode_count: int = option(100, whole(1, 10**6), "Games of a test.")
    test_policy: str = option(
        "sampled", one_of("sampled", "greedy"), "How a test acts: as in training, or always the likeliest action."
    )
    render: bool = option(
        False,
        ON_OFF,
        "Videos of a test's best, median and worst of the first games, and a window where there is a display; "
        "in training, a video of each evaluation's median game (--eval_period).",
    )
    eval_period: int = option(0, whole(0), "Agent steps between two evaluations during training; 0 is none.")
    eval_episode_count: int = option(10, whole(1, 10**6), "Games of one evaluation.")


# While the learner has a worker's only slot, a round of all other workers is to last it for so many updates.
UPDATES_FROM_OTHERS = 2


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that a run is told, topic by topic."""

    run: RunOptions = field(default_factory=RunOptions)
    environment: EnvironmentOptions = field(default_factory=EnvironmentOptions)
    workers: WorkerOptions = field(default_factory=WorkerOptions)
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
                "--inference=learner computes on cpu or cuda, not on --device=mps; --inference=worker would be right."
            )
        kinds = [replay.dist_function for replay in self.replay.replays if replay.ranks]
        if self.network.use_lstm and "kl_div" in kinds:
            raise UsageError(
                "--replay_parameters: kl_div compares policies state by state, and with --use_lstm a policy depends on "
                "more than the state; ln_norm or cos_dist would be right."
            )

    @property
    def seed(self) -> int:
        """The seed of a configuration that is settled (see machine/machine_setup.py)."""
        assert self.run.seed is not None
        return self.run.seed

    @property
    def saves_replays(self) -> bool:
        return self.checkpoint.save_replay or self.run.reproducible

    def slots_for(self, workers: int) -> int:
        """Rounds of unrolls that each of so many workers may be ahead; in lockstep it waits after each.

        More than the learner needs would only make the policies older that it learns from.
        """
        if self.run.reproducible:
            return 1
        updates_from_others = (workers - 1) * self.workers.envs_per_worker / self.fresh_unrolls_per_update
        return self.workers.slots_per_worker or (1 if updates_from_others >= UPDATES_FROM_OTHERS else 2)

    @property
    def fresh_unrolls_per_update(self) -> int:
        """New unrolls that one update waits for."""
        # Every unroll passes through every queue, so several queues share the same new unrolls, all with one share.
        return max(self.replay.queue_shares, default=self.replay.batch_size)

    @property
    def agent_steps_per_update(self) -> int:
        return self.fresh_unrolls_per_update * self.replay.r_f_steps

    @property
    def steps_to_learn(self) -> int:
        """Agent steps that a new run needs for its first update."""
        each, fill = self.fresh_unrolls_per_update, self.replay.longest_warmup
        unrolls = each * self.replay.batches_ahead + (fill + each if self.replay.queue_shares else max(fill, each))
        return unrolls * self.replay.r_f_steps

    @property
    def planned_updates(self) -> int:
        """Updates that the run's steps are enough for; at least 1."""
        length = self.replay.r_f_steps
        steps = -(-self.run.environment_max_steps // length) * length  # an unroll is played to its end
        return max(1, 1 + (steps - self.steps_to_learn) // self.agent_steps_per_update)

    def without_effect(self) -> list[str]:
        """Options of a training that somebody has set, and that do nothing unless another one is set, too."""
        flags = self.flags()
        return [
            f"--{name} has no effect without {needed}"
            for needed, (is_there, names) in NEEDS.items()
            for name in names
            if flags[name] != OPTIONS[name].default and not is_there(self)
        ] + [
            f"the {replay.type} replay draws like standard: nothing is ranked with {why}"
            for replay, share in zip(self.replay.replays, self.replay.shares, strict=True)
            if (why := replay.no_choice(share))
        ]

    def of_training_only(self) -> list[str]:
        """Options that somebody has set, and that a test takes no notice of."""
        set_here = (name for name, value in self.flags().items() if value != OPTIONS[name].default)
        return [name for name in set_here if name not in (*OF_THE_POLICY, *ALSO_IN_TESTS)]

    def flags(self) -> dict[str, Any]:
        """All values by flag name: plain enough for JSON, and from_flags makes an equal Config of them."""
        return {
            item.name: getattr(getattr(self, topic), item.name)
            for topic, options in TOPICS.items()
            for item in fields(options)
        }

    @classmethod
    def from_flags(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of flags(); names that are left out get their defaults."""
        for name in values:
            if name not in OPTIONS:
                raise unknown_flag(name)
        topics: dict[str, Any] = {
            topic: options(**{item.name: values[item.name] for item in fields(options) if item.name in values})
            for topic, options in TOPICS.items()
        }
        return cls(**topics)

    def replace_flags(self, **overrides: Any) -> Self:
        return self.from_flags({**self.flags(), **overrides})


TOPICS: dict[str, type[Options]] = get_type_hints(Config)
OPTIONS: dict[str, dataclasses.Field[Any]] = {item.name: item for topic in TOPICS.values() for item in fields(topic)}


# What the policy is, and what it sees.
OF_THE_POLICY = (
    "precision",
    *(item.name for topic in (EnvironmentOptions, NetworkOptions) for item in fields(topic)),
)
# What a test takes notice of besides.
ALSO_IN_TESTS = (
    *("op_mode", "load_model_url", "test_episode_count", "test_policy", "render"),
    *("seed", "worker_count", "console", "console_period"),
)

# What some options need to do anything.
NEEDS: dict[str, tuple[Callable[[Config], object], tuple[str, ...]]] = {
    "--use_lstm": (lambda c: c.network.use_lstm, ("lstm_size",)),
    "--noreproducible": (lambda c: not c.run.reproducible, ("slots_per_worker",)),
    "--noepisodic_life": (lambda c: not c.environment.episodic_life, ("fire_on_life_loss",)),
    "--caching": (lambda c: c.replay.caching, ("cache_output_buffer_size",)),
    "--use_replay_compression": (lambda c: c.replay.use_replay_compression, ("lz4_compression_level",)),
    "a queue": (lambda c: c.replay.queue_shares, ("proximal_loss_weight",)),
    "a replay besides queues": (
        lambda c: c.replay.longest_warmup,
        ("training_fill_in_factor", "use_replay_compression"),
    ),
    "a replay that compares features": (lambda c: c.replay.ranks_by_features, ("feature_out_layer_size",)),
    "--use_kl_mask": (lambda c: c.loss.use_kl_mask, ("kl_div_threshold",)),
    "--use_policy_cloning_loss": (lambda c: c.loss.use_policy_cloning_loss, ("policy_cloning_loss_weight",)),
    "--use_value_cloning_loss": (lambda c: c.loss.use_value_cloning_loss, ("value_cloning_loss_weight",)),
    "--optimizer=rmsprop": (
        lambda c: c.optimizer.optimizer == "rmsprop",
        ("rmsprop_alpha", "rmsprop_eps", "rmsprop_momentum"),
    ),
    "--optimizer=adam": (lambda c: c.optimizer.optimizer == "adam", ("adam_beta1", "adam_beta2", "adam_eps")),
    "--save_replay": (lambda c: c.saves_replays, ("save_replay_minutes",)),
    "--wandb": (lambda c: c.report.wandb, ("wandb_project",)),
    "--metrics_port": (lambda c: c.report.metrics_port, ("metrics_host",)),
    "--eval_period": (lambda c: c.test.eval_period, ("eval_episode_count", "test_policy", "render")),
    "--op_mode=test": (lambda c: c.run.op_mode == "test", ("test_episode_count",)),
}


# --- Replays ----------------------------------------------------------------------------------------------------------


# --- Names that are no flags ------------------------------------------------------------------------------------------

REPLACED_FLAGS = {
    "multiprocessing_backend": "workers are always spawned processes",
    "learner_thread_count": "there is one learner; --learner_threads sets its CPU threads",
    "undefok": "unknown flags are always refused",
}
NAMES_ELSEWHERE = {
    "entropy": "entropy_loss_weight",
    "entropy_coef": "entropy_loss_weight",
    "learning_rate": "lr",
    "num_envs": "envs_per_worker",
    "num_workers": "worker_count",
    "total_steps": "environment_max_steps",
    "total_timesteps": "environment_max_steps",
    "unroll_length": "r_f_steps",
}


def is_switch(name: str) -> bool:
    return name in OPTIONS and OPTIONS[name].metadata["rule"].kind is bool


def unknown_flag(name: str, others: Iterable[str] = ()) -> UsageError:
    if name in REPLACED_FLAGS:
        return UsageError(f"--{name} has no meaning here: {REPLACED_FLAGS[name]}.")
    if name.startswith("no_") and is_switch(name[3:]):
        return UsageError(f"--{name} is no known flag; did you mean --no{name[3:]}?")
    if name in NAMES_ELSEWHERE:
        return UsageError(f"--{name} is no known flag; did you mean --{NAMES_ELSEWHERE[name]}?")
    return UsageError(f"--{name} is no known flag{did_you_mean(name, (*OPTIONS, 'flagfile', *others), dashes='--')}")
