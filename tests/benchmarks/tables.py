"""The tables of the throughput benchmark."""

from collections.abc import Sequence

from option_flags import Config
from tests.benchmarks.ceiling import Speed, StepCost
from tests.benchmarks.replay_stages import REPLAYS, replay_name
from tests.benchmarks.runs import EARLIER_PLATFORM, RunFigures, Setup
from tests.benchmarks.stages import (
    ACT,
    BARE_INFERENCE,
    BARE_LEARNING,
    BARE_WORKER,
    BY_HAND,
    CHAIN,
    COPY,
    PUBLISH,
    UPDATE,
    VECTOR,
    WORKER,
)
from tests.benchmarks.timing import Times

RUNS_TITLE = (
    f"\n{'training, all cores':<24}{'steps/s':>9}{'frames/s':>10}{'ceiling':>9}{'ratio':>7}{'= work':>9}{'× in use':>9}"
    f"{'others':>8}{f'of {EARLIER_PLATFORM:.0f}':>9}"
)
WHERE_TITLE = f"\n{'where it goes, µs of a core per agent step':<44}{'in the run':>11}{'alone':>8}"


def stages_table(times: Times, config: Config, networks: Sequence[str]) -> str:
    """Speeds on one core. The last column is the time of a stage divided by that of another stage."""
    lines = [f"\n{'stages alone, one core':<46}{'steps/s':>11}{'µs/step':>9}  time of it"]

    def line(name: str, against: str = "", called: str = "", label: str = "") -> None:
        seconds = times.seconds(name)
        ratio = f"  {times.ratio(name, against):.2f} of {called or against}" if against else ""
        lines.append(f"{label or name:<46}{1 / seconds:>11,.0f}{1e6 * seconds:>9.1f}{ratio}")

    line(BY_HAND)
    line(VECTOR)
    line(CHAIN, VECTOR)
    own = config.network.network
    for network in (own, *(name for name in networks if name != own)):
        suffix = "" if network == own else f", {network}"
        for bare, real in ((BARE_INFERENCE, ACT), (BARE_LEARNING, UPDATE)):
            line(bare + suffix, label=f"{bare}, {network}")
            line(real + suffix, bare + suffix, "the bare loop", f"{real}, {network}")
    line(BARE_WORKER)
    alone = times.seconds(CHAIN) + times.seconds(BARE_INFERENCE)
    lines[-1] += f"  {times.seconds(BARE_WORKER) / alone:.2f} of our chain and bare inference, each on its own"
    line(WORKER, BARE_WORKER, "the bare one")
    for name in REPLAYS:
        line(replay_name(name), BARE_LEARNING, "learning from it")
    line(PUBLISH, BARE_LEARNING, "learning")
    line(COPY, CHAIN)
    return "\n".join(lines)


def run_line(config: Config, setup: Setup, run: RunFigures, cost: StepCost, ceiling: Speed, cores: int) -> str:
    """A run and its ceiling: ratio = work (CPU time of the bare loops divided by the run's) × cores in use."""
    name = f"{setup.name}, {config.network.network}"
    multiple = f"{run.steps_per_second / EARLIER_PLATFORM:.1f}×" if setup.is_older_command else ""
    spent = run.workers_seconds + run.learner_seconds
    work = (cost.acting + cost.serial + cost.parallel) / spent
    return (
        f"{name:<24}{run.steps_per_second:>9,.0f}{run.frames_per_second:>10,.0f}{ceiling.steps_per_second:>9,.0f}"
        f"{run.steps_per_second / ceiling.steps_per_second:>7.2f}{work:>9.2f}"
        f"{spent * run.steps_per_second / cores:>9.2f}{run.others_cores / cores:>8.2f}{multiple:>9}"
    )


def where_lines(name: str, run: RunFigures, cost: StepCost, cores: int) -> str:
    """CPU time of a step in the run and in the bare stages alone."""
    others = run.others_cores / run.steps_per_second
    idle = max(0.0, cores / run.steps_per_second - run.workers_seconds - run.learner_seconds - others)
    rows: list[tuple[str, float, float]] = [
        ("workers", run.workers_seconds, cost.acting),
        ("learner", run.learner_seconds, cost.serial + cost.parallel),
        ("other programs", others, 0.0),
        ("idle", idle, 0.0),
    ]
    lines = [f"{f'{name}: {row}':<44}{1e6 * spent:>11.1f}{1e6 * alone:>8.1f}" for row, spent, alone in rows]
    for who, shares in (("learner", run.learner_shares), ("workers", run.worker_shares)):
        parts = ", ".join(f"{stage} {share:.0%}" for stage, share in shares.items())
        lines.append(f"    time of the {who}: {parts}")
    return "\n".join(lines)
