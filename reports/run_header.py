"""What a run prints before it starts."""

from dataclasses import replace
from pathlib import Path

from machine.machine_setup import Machine
from option_flags import Config, EnvironmentOptions, preset
from options.command_line import flag_words
from options.presets import is_noframeskip
from options.rules import counted
from replay.unroll_layout import UnrollLayout
from reports.hints import unused_in_training

HIGH_LAG = 40  # updates; learning is measured with a policy lag of 3 to 15 only
LOWER_LAG = "a larger --batch_size or fewer --envs_per_worker would lower it"


def run_header(
    config: Config,
    folder: Path,
    machine: Machine,
    layout: UnrollLayout,
    network: str,
    planned_updates: int,
) -> list[str]:
    """The configuration in a few lines; `network` is what --network has come to, in words."""
    precision = str(machine.precision).removeprefix("torch.") if layout.has_pictures else "float32"
    shares = [
        f"{share} {replay.type}" for replay, share in zip(config.replay.replays, config.replay.shares, strict=True)
    ]
    each = config.workers.envs_per_worker
    environments = machine.worker_count * each
    learners = config.learners.learners  # each has such workers
    waiting = learners * environments * machine.slots_per_worker  # unrolls that can be played ahead of the learners
    lag = 0 if config.run.reproducible else round(waiting / config.fresh_unrolls_per_update)
    warning = [f"if all workers are kept busy, policy lag may reach {lag} updates; {LOWER_LAG}"]
    subject = [config.environment.env, described_observations(layout), described_actions(layout)]
    subject += [protocol_in_words(config.environment)]
    subject += [f"seed {config.run.seed}", f"results in {folder}"]
    cluster = config.cluster.cluster if learners == 1 else None
    goal, window = config.run.goal, last_games(config.report.avg_buff_size)
    return [
        ", ".join(filter(None, subject)),
        f"learner on {machine.device} in {precision} with {counted(machine.learner_threads, 'thread')}; "
        f"{counted(machine.worker_count, 'worker')} × {counted(each, 'environment')} = {environments}",
        f"batch of {config.replay.batch_size} unrolls × {config.replay.r_f_steps} steps: {' + '.join(shares)}; "
        f"{network}, {_planned(config, planned_updates)}",
        *_interaction(config, machine),
        *([] if cluster is None else [f"cluster at {cluster}: its other nodes play as they join"]),
        *([] if goal is None else [f"the run ends when the mean {goal.name} of {window} reaches {goal.value:g}"]),
        *(warning if lag >= HIGH_LAG else []),
        *unused_in_training(config),
    ]


def _planned(config: Config, updates: int) -> str:
    too_short = updates == 1 and config.steps_to_learn > config.run.environment_max_steps
    if too_short and config.run.op_mode == "train":
        return f"no update, because the first one needs {config.steps_to_learn:,} agent steps"
    return f"{counted(updates, 'update')} planned"


def described_observations(layout: UnrollLayout) -> str:
    """Such as "sees 4 numbers" or "sees 4 pictures of 84×84×1 and 3 numbers"."""
    channels, height, width = layout.frame_shape
    pictures = counted(layout.frame_stack, "picture")
    parts = [f"{pictures} of {height}×{width}×{channels}"] if layout.has_pictures else []
    parts += [counted(layout.vector_size, "number")] if layout.vector_size else []
    return f"sees {' and '.join(parts)}"


def described_actions(layout: UnrollLayout) -> str:
    """Such as "6 actions, masked", "choices of 3 and 2 actions" or "6 real-valued actions"."""
    if layout.mask_size:
        return f"{described_actions(replace(layout, mask_size=0))}, masked"
    sizes = [str(size) for size in layout.action_sizes if size]
    if layout.action_kind == "discrete":
        return f"{layout.action_count} actions"
    parts = []
    if len(set(sizes)) == 1:
        parts.append(f"{len(sizes)} choices of {sizes[0]} actions")
    elif sizes:
        parts.append(f"choices of {', '.join(sizes[:-1])} and {sizes[-1]} actions")
    if numbers := layout.action_sizes.count(0):
        parts.append(counted(numbers, "real-valued action"))
    return " and ".join(parts)


def protocol_in_words(options: EnvironmentOptions, leave_out: tuple[str, ...] = ()) -> str:
    """`machado protocol with --noop_threshold=30`: its name, and the flags that differ from it.

    Empty for an environment without protocols.
    """
    if not is_noframeskip(options.env):
        return ""
    differing = {
        name: getattr(options, name)
        for name, value in preset("protocol", options.protocol).items()
        if getattr(options, name) != value and name not in leave_out
    }
    return f"{options.protocol} protocol" + (f" with {' '.join(flag_words(differing))}" if differing else "")


def _interaction(config: Config, machine: Machine) -> list[str]:
    """A line about games that do not wait for actions."""
    options = config.environment
    if options.interaction == "turns":
        return []
    if not options.in_real_time:
        return [
            f"{options.interaction} interaction: a decision every {options.frames_per_step} frames, which takes effect "
            f"{counted(options.action_delay, 'frame')} after its screen; idle action: {options.idle_action}"
        ]
    latency = config.realtime.inference_latency
    return [
        f"in real time at {config.realtime.fps:g} frames a second: each worker has "
        f"{counted(machine.inference_processes, 'inference process')}, staggered by {config.realtime.stagger}; "
        f"idle action: {options.idle_action}{'' if latency is None else f'; inference times {latency} ms'}"
    ]


def last_games(count: int) -> str:
    return "the last game" if count == 1 else f"the last {count:,} games"
