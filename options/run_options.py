"""The options of a run itself: how it starts and ends, what it saves and reports, and how a policy is tested."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from options.environment_options import GAME_NUMBER
from options.presets import PRESETS
from options.rules import (
    ADDRESS,
    PATH,
    Need,
    Options,
    Rule,
    UsageError,
    above,
    flag_given,
    matching,
    one_of,
    option,
    switch,
    whole,
)

TAG = "[A-Za-z0-9][A-Za-z0-9_.-]*"


class Goal(NamedTuple):
    """A run ends when the mean of this number over its latest games is at least the value."""

    name: str  # "return", "length", or what the environment says of a game
    value: float

    @property
    def flag(self) -> str:
        return f"--stop_at_return={self.value:g}" if self.name == "return" else f"--stop_at={self.name}:{self.value:g}"


@dataclass(frozen=True, kw_only=True)
class RunOptions(Options):
    topic = "Run"

    op_mode: str = option(
        "train",
        one_of("train", "train_w_load", "test", "play"),
        "Start a new run, continue a run, score a policy, or play yourself.",
    )
    load_model_url: str | None = option(
        None, PATH, "Run folder or checkpoint, to continue from with train_w_load or to score with test."
    )
    load_weights_only: bool = switch(
        False, "With train_w_load: start a new run, also of another game, from the weights of --load_model_url alone."
    )
    environment_max_steps: int = option(
        6_000_000,
        whole(1, 10**15),
        "Agent steps of all environments together. Over them the learning rate falls to --lr_end_value, unless "
        "--lr_scheduler_steps says otherwise: to end earlier and not make it fall faster, use --stop_at_return or "
        "CTRL+C.",
        aliases=("total_timesteps", "total_steps"),
    )
    stop_at_return: float | None = option(
        None,
        Rule(float, "be a number", math.isfinite),
        "The run ends when the mean return of its latest --avg_buff_size games reaches this. Unset: only "
        "--environment_max_steps ends it.",
    )
    stop_at: str | None = option(
        None,
        matching(rf"{GAME_NUMBER}:-?\d+(\.\d+)?(e-?\d+)?", "be NAME:NUMBER, such as success:0.95"),
        "Like --stop_at_return, for another number that is known of each game: its length, or what the environment "
        "says of it; see docs/environments.md.",
    )
    seed: int | None = option(None, whole(0, 2**31 - 1), "Seed of all random streams. Unset: chosen at random.")
    settings: str = option(
        "auto",
        one_of(*PRESETS["settings"]),
        "Values of several flags at once, where they are not given. auto: for observations without a picture numbers, "
        "or continuous if actions are real numbers; small_pictures for pictures with fewer than 36 pixels on a side; "
        "atari_gpu for a NoFrameskip game whose learner has an NVIDIA GPU, if none of its flags is given; else "
        "standard.",
    )
    reproducible: bool = switch(False, "Give bit-identical results for the same seed, at some cost in speed.")
    run_name: str | None = option(
        None,
        matching(
            "[A-Za-z][A-Za-z0-9_.-]{0,79}",
            "be a name of at most 80 letters, digits, dots, dashes and underscores, which begins with a letter",
        ),
        "Name of the run, with which its folder's name begins: <run_name>_<environment>_<time>.",
    )
    tags: str | None = option(
        None,
        matching(f"{TAG}(,{TAG})*", "be words such as a,b, of letters, digits, dots, dashes and underscores"),
        "Words by which you find the run again, such as baseline,paper. They are kept with its options.",
    )
    results_dir: str = option("results", PATH, "Folder for the folders of all runs.")
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
    cuda_graphs: bool = switch(
        True,
        "On an NVIDIA GPU, launch the kernels of a batch's gradients at once. Not with --reproducible, nor with a "
        "network of your own that does not allow it.",
    )
    learner_threads: int = option(
        0, whole(0), "CPU threads of the learner. 0: half of the cores, or at most 4 with a GPU."
    )

    @property
    def goal(self) -> Goal | None:
        """What ends the run before --environment_max_steps."""
        if self.stop_at is not None:
            name, _, value = self.stop_at.partition(":")
            return Goal(name, float(value))
        return None if self.stop_at_return is None else Goal("return", self.stop_at_return)

    def _check_together(self) -> None:
        if self.stop_at_return is not None and self.goal != Goal("return", self.stop_at_return):
            raise UsageError(
                f"--stop_at={self.stop_at} and --stop_at_return={self.stop_at_return:g} are two ends of one run; one "
                "of them would be right."
            )
        if self.load_weights_only and self.op_mode != "train_w_load":
            raise UsageError("--load_weights_only needs --op_mode=train_w_load: a new run begins with the weights.")
        if self.op_mode in ("train", "play") and self.load_model_url:
            raise UsageError("--load_model_url needs --op_mode=train_w_load or test; --op_mode=train starts a new run.")
        if self.op_mode in ("train_w_load", "test") and not self.load_model_url:
            raise UsageError(
                f"--op_mode={self.op_mode} needs --load_model_url, the run folder or checkpoint to "
                f"{'score' if self.op_mode == 'test' else 'continue from'}."
            )


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions(Options):
    topic = "Checkpoints"

    save_model_period: int = option(2000, whole(1), "Updates between two checkpoints.")
    save_model_minutes: float = option(5.0, above(0), "Maximum number of minutes between two checkpoints.")
    keep_checkpoints: int = option(3, whole(1), "Number of latest checkpoints to keep, besides the best one.")
    save_replay: bool = switch(
        False, "Save the contents of replays at the end, on signals and at intervals; implied by --reproducible."
    )
    save_replay_minutes: float = option(
        30.0, above(0), "Minutes between two saves of the replays.", Need("--save_replay", lambda c: c.saves_replays)
    )


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
    console_period: float = option(
        10.0,
        above(0),
        "Seconds between two lines of plain output.",
        Need("--console=plain", lambda c: c.report.console in ("plain", "auto")),
    )
    curves: bool = switch(True, "Draw curves.png, in a separate process of the lowest priority.")
    tensorboard: bool = switch(False, "Write event files for TensorBoard, including the videos of the run.")
    wandb: bool = switch(False, "Send the reports to Weights & Biases.", aliases=("track",))
    wandb_project: str = option(
        "rl-platform",
        matching(r"\w[\w./-]*", "be a name such as rl-platform"),
        "With --wandb: project of the reports.",
        flag_given("wandb"),
    )
    metrics_port: int = option(0, whole(0, 65535), "Port on which Prometheus reads the newest report. 0: no port.")
    metrics_host: str = option("127.0.0.1", ADDRESS, "Address of --metrics_port.", flag_given("metrics_port"))


@dataclass(frozen=True, kw_only=True)
class TestOptions(Options):
    topic = "Tests and evaluation"
    __test__ = False  # otherwise pytest would collect the class as tests

    test_episode_count: int = option(100, whole(1, 10**6), "Number of games in a test.", flag_given("op_mode", "test"))
    test_policy: str = option(
        "sampled",
        one_of("sampled", "greedy"),
        "Actions in a test or evaluation: sampled as in training, or always the most likely one (greedy).",
        flag_given("eval_period"),
    )
    render: bool = switch(
        False,
        "Test: record videos of the best, median and worst of the first games, and show a window if there is "
        "a display. Training: record a video of the median game of each evaluation (needs --eval_period).",
        flag_given("eval_period"),
    )
    eval_period: int = option(0, whole(0), "Agent steps between two evaluations during training. 0: no evaluations.")
    eval_episode_count: int = option(
        10, whole(1, 10**6), "Number of games in one evaluation.", flag_given("eval_period")
    )
