"""Options that were set, but have no effect on this run or test."""

from collections.abc import Callable
from typing import Any

from option_flags import OPTIONS, Config
from options.batch_uses import ONCE
from options.environment_families import is_noframeskip
from options.flag_sets import dependent_defaults
from run_files.checkpoint import POLICY_OPTIONS

# A requirement: (a function that checks whether a Config meets it, the options without effect otherwise).
NEEDS: dict[str, tuple[Callable[[Config], object], tuple[str, ...]]] = {
    "--use_lstm": (lambda c: c.network.use_lstm, ("lstm_size",)),
    "a NoFrameskip game": (lambda c: is_noframeskip(c.environment.env), ("factored_actions",)),
    "--noreproducible": (lambda c: not c.run.reproducible, ("slots_per_worker",)),
    "--noepisodic_life": (lambda c: not c.environment.episodic_life, ("fire_on_life_loss",)),
    "--fire_on_reset": (lambda c: c.environment.fire_on_reset, ("fire_on_life_loss",)),
    "--interaction=asynchronous or sequential": (
        lambda c: c.environment.interaction in ("asynchronous", "sequential"),
        ("action_delay",),
    ),
    "another --interaction than turns": (lambda c: c.environment.interaction != "turns", ("idle_action",)),
    "--interaction=realtime": (
        lambda c: c.environment.in_real_time,
        ("fps", "inference_processes", "stagger", "inference_latency"),
    ),
    "--cluster": (
        lambda c: c.cluster.cluster,
        ("local_workers", "node_workers", "weights_interval", "weights_precision", "max_policy_lag"),
    ),
    "--local_workers": (lambda c: not c.cluster.all_workers_are_remote, ("worker_count",)),
    "--learners": (lambda c: c.learners.learners != 1, ("learner_restarts",)),
    "--caching": (lambda c: c.replay.caching, ("cache_output_buffer_size",)),
    "--use_replay_compression or --cluster": (
        lambda c: c.replay.use_replay_compression or c.cluster.cluster,
        ("lz4_compression_level",),
    ),
    "a queue": (lambda c: c.replay.queue_shares, ("proximal_loss_weight", "impact_uses")),
    "a replay besides queues": (
        lambda c: c.replay.longest_warmup,
        (
            *("training_fill_in_factor", "use_replay_compression"),
            *("use_policy_cloning_loss", "policy_cloning_loss_weight"),
            *("use_value_cloning_loss", "value_cloning_loss_weight"),
        ),
    ),
    "a replay that compares features": (lambda c: c.replay.ranks_by_features, ("feature_out_layer_size",)),
    "a second use of each fresh unroll": (
        lambda c: c.loss.loss != "impact" or c.batch_uses != ONCE or not c.loss.impact_target_period,
        ("impact_batches",),
    ),
    "--use_kl_mask": (lambda c: c.loss.use_kl_mask, ("kl_div_threshold",)),
    "--use_policy_cloning_loss": (lambda c: c.loss.use_policy_cloning_loss, ("policy_cloning_loss_weight",)),
    "--use_value_cloning_loss": (lambda c: c.loss.use_value_cloning_loss, ("value_cloning_loss_weight",)),
    "--loss=impact": (
        lambda c: c.loss.loss == "impact",
        ("impact_epsilon", "impact_rho", "impact_uses", "impact_batches", "impact_target_period"),
    ),
    "--optimizer=rmsprop": (
        lambda c: c.optimizer.optimizer == "rmsprop",
        ("rmsprop_alpha", "rmsprop_eps", "rmsprop_momentum"),
    ),
    "--optimizer=adam": (lambda c: c.optimizer.optimizer == "adam", ("adam_beta1", "adam_beta2", "adam_eps")),
    "--save_replay": (lambda c: c.saves_replays, ("save_replay_minutes",)),
    "--console=plain": (lambda c: c.report.console in ("plain", "auto"), ("console_period",)),
    "--wandb": (lambda c: c.report.wandb, ("wandb_project",)),
    "--metrics_port": (lambda c: c.report.metrics_port, ("metrics_host",)),
    "--eval_period": (lambda c: c.test.eval_period, ("eval_episode_count", "test_policy", "render")),
    "--op_mode=test": (lambda c: c.run.op_mode == "test", ("test_episode_count",)),
}
TEST_OPTIONS = (
    *("op_mode", "load_model_url", "test_episode_count", "test_policy", "render"),
    *("seed", "worker_count", "worker_timeout", "console", "console_period"),
)


def unused_in_training(config: Config) -> list[str]:
    """A line for each option that was set, but needs another option to have an effect."""
    values = changed_options(config)
    return [
        f"--{name} has no effect without {needed}"
        for needed, (is_met, names) in NEEDS.items()
        for name in names
        if name in values and not is_met(config)
    ] + [
        f"the {replay.type} replay draws like standard: nothing is ranked with {why}"
        for replay, share in zip(config.replay.replays, config.replay.shares, strict=True)
        if (why := replay.why_never_ranked(share))
    ]


def unused_in_test(config: Config) -> list[str]:
    """A line with the options that were set, but have an effect on training only; no line if there are none."""
    names = [f"--{name}" for name in changed_options(config) if name not in (*POLICY_OPTIONS, *TEST_OPTIONS)]
    return [f"without effect on a test: {', '.join(names)}"] if names else []


def changed_options(config: Config) -> dict[str, Any]:
    """The options that differ from the defaults of their environment, their protocol and their loss, by name."""
    flags = config.flags()
    defaults = {name: item.default for name, item in OPTIONS.items()} | dependent_defaults(flags)
    return {name: value for name, value in flags.items() if value != defaults[name]}
