"""All options of a run: one frozen dataclass for each topic, and Config, which holds them all.

An option is declared once, in the file of its topic in options/: a field with its default, its rule, its help sentence
and what it needs to have an effect. Its flag has the name of the field.
Every Config is valid, whether it was made from a command line, from Python or from a checkpoint. Invalid values raise a
UsageError.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, get_type_hints

from options.command_line import unknown_flag
from options.environment_options import EnvironmentOptions, RealtimeOptions
from options.learning_options import ONCE, BatchUses, LossOptions, NetworkOptions, OptimizerOptions
from options.presets import ATARI_GPU, AUTO, PRESETS, TRIED_WITH_GPU, defaults_of_environment, is_noframeskip
from options.process_options import ClusterOptions, LearnerOptions, WorkerOptions
from options.replay_options import ReplayOptions, divisible_batch
from options.rules import Options, UsageError, declared
from options.run_options import CheckpointOptions, ReportOptions, RunOptions, TestOptions


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
        goal = self.run.goal
        if goal is not None and goal.name not in ("return", "length") and is_noframeskip(self.environment.env):
            raise UsageError(
                f"{goal.flag}: of the games of --env={self.environment.env} only return and length are known; "
                "--stop_at_return would be right."
            )
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
            raise UsageError(
                f"--cluster={self.cluster.cluster} has other machines play for one learner; --learners=1 would be "
                "right, or torchrun, which starts learners on several machines."
            )
        if 0 < self.workers.worker_count < learners:
            raise UsageError(
                f"--worker_count={self.workers.worker_count} leaves some of --learners={learners} without a worker; "
                f"{learners} or more would be right."
            )
        shares, size = self.replay.shares, self.replay.batch_size
        if any(share % learners for share in shares):
            right = divisible_batch(size, [replay.sample_ratio for replay in self.replay.replays], learners)
            raise UsageError(
                f"--batch_size={size} gives the replays {' and '.join(map(str, shares))} unrolls of a batch, which "
                f"--learners={learners} cannot divide evenly; --batch_size={right} would be right."
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
        each, fill = self.fresh_unrolls_per_batch, max(self.replay.warmup_unrolls)
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
        values = _dependent_defaults(values) | dict(values)
        topics: dict[str, Any] = {
            topic: options(**{item.name: values[item.name] for item in fields(options) if item.name in values})
            for topic, options in TOPICS.items()
        }
        return cls(**topics)

    def replace_flags(self, **overrides: Any) -> Self:
        return self.from_flags(merged(self.flags(), overrides))


TOPICS: dict[str, type[Options]] = get_type_hints(Config)
OPTIONS: dict[str, dataclasses.Field[Any]] = declared(*TOPICS.values())


def preset(option: str, value: object) -> dict[str, Any]:
    """What a value of --protocol, --settings or --loss sets: its own values, and the declared defaults of what its
    other values set, so that nothing is left of them. Nothing for a wrong value, which the option's rule refuses."""
    values = PRESETS[option]
    if not isinstance(value, str) or value == AUTO or value not in values:
        return {}
    return {name: OPTIONS[name].default for flags in values.values() for name in flags} | dict(values[value])


def _preset_flags(given: Mapping[str, Any]) -> dict[str, Any]:
    """What the given --protocol, --settings and --loss set; the later beats the earlier."""
    return {name: value for option in PRESETS for name, value in preset(option, given.get(option)).items()}


def _dependent_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults that depend on the given flags, where they may differ from the declared ones."""
    return {**_preset_flags(given), **defaults_of_environment(given.get("env"))}


def defaults_beside(values: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults of all options in a run with these values: those of its environment, its protocol and its loss."""
    return {name: item.default for name, item in OPTIONS.items()} | _dependent_defaults(values)


def merged(saved: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The saved values of a run, and over them those that are given.

    A given protocol, loss or name of settings that is not the run's sets its flags anew; single flags that are given
    beat it.
    """
    changed = {
        option: given[option]
        for option in PRESETS
        if option in given and given[option] != saved.get(option, OPTIONS[option].default)
    }
    return {**saved, **_preset_flags(changed), **given}


def against_gpu_settings(given: Mapping[str, Any]) -> list[str]:
    """The given flags for which --settings=auto does not take those for a GPU: its own, and others that it was not
    tried with."""
    own = [name for name in given if name in PRESETS["settings"][ATARI_GPU]]
    return own + [name for name, tried in TRIED_WITH_GPU.items() if given.get(name, tried) != tried]
