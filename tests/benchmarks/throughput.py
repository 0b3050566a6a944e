"""Measure each stage of training alone, the ceiling that follows, and whole runs compared with that ceiling.

    python -m tests.benchmarks.throughput [--only=stages,plain] [--seconds=20] [--json=FILE] [any flag of main.py]

First come the stages alone, on one core, in turns. Then come training runs, each with its own ceiling, measured right
before and right after it. `--only` takes some of: stages, training (all runs), and the runs plain, replay, older and
older_conv3. docs/performance.md#training says what the ceiling is.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from machine.capacity import usable_cores
from machine.device import choose_device, choose_precision
from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.rules import UsageError
from tests.benchmarks import tables
from tests.benchmarks.ceiling import Speed, StepCost, fastest
from tests.benchmarks.replay_stages import replay_stages
from tests.benchmarks.runs import SETUPS, RunFigures, Setup, configure, train
from tests.benchmarks.stages import (
    BARE_INFERENCE,
    BARE_LEARNING,
    CHAIN,
    Bench,
    environment_stages,
    inference_stages,
    learning_stages,
    weight_stages,
    worker_stages,
)
from tests.benchmarks.timing import Stage, Times, in_turns, one_core
from wrappers.emulator import check_atari

NETWORKS = ("nature", "nature_small", "impala_shallow", "impala_deep", "conv3")
PARTS = ("stages", "training", *(setup.name for setup in SETUPS))
STAGES_SECONDS, CEILING_SECONDS = 2.0, 0.16  # each time that the ceiling is measured; both times --seconds


@dataclass(frozen=True)
class RunResult:
    """A training run and its own ceiling."""

    setup: Setup
    config: Config
    cost: StepCost
    ceiling: Speed
    run: RunFigures

    @property
    def ratio(self) -> float:
        return self.run.steps_per_second / self.ceiling.steps_per_second


def measure_stages(config: Config, seconds: float) -> Times:
    """All stages in the same rounds; learning also with the other networks."""
    with one_core():
        bench = Bench(config)
        stages = [*environment_stages(bench), *inference_stages(bench), *worker_stages(bench), *weight_stages(bench)]
        stages += learning_stages(bench) + replay_stages(config)
        for network in NETWORKS:
            if network != config.network.network:
                other = Bench(config.replace_flags(network=network))
                stages += [of_network(stage, network) for stage in inference_stages(other) + learning_stages(other)]
        return in_turns(stages, seconds)


def of_network(stage: Stage, network: str) -> Stage:
    return Stage(f"{stage.name}, {network}", stage.run, stage.steps, stage.in_learner, stage.by_wall_clock)


def measure_run(setup: Setup, given: Mapping[str, Any], seconds: float) -> RunResult:
    """Measure the stages of the ceiling, the run, and the stages again: the speed of the machine changes over time."""
    config = configure(setup, given)
    bench = Bench(config)
    with one_core():
        stages = [
            *(stage for stage in environment_stages(bench) if stage.name == CHAIN),
            *(stage for stage in inference_stages(bench) if stage.name == BARE_INFERENCE),
            *(stage for stage in learning_stages(bench) if stage.name == BARE_LEARNING),
        ]
        times = in_turns(stages, seconds * CEILING_SECONDS)
    run = train({**setup.flags, **given}, seconds)
    with one_core():
        times.add(in_turns(stages, seconds * CEILING_SECONDS))
    cost = step_cost(times, config, on_cores=bench.device.type == "cpu")
    return RunResult(setup, config, cost, fastest(cost, usable_cores(), usable_cores()), run)


def step_cost(times: Times, config: Config, on_cores: bool) -> StepCost:
    """The cost of a step, from bare stages. It includes learning from the replayed steps that belong to a fresh one."""
    learned = config.replay.batch_size / config.fresh_unrolls_per_update
    acting, learning = times.seconds(CHAIN) + times.seconds(BARE_INFERENCE), learned * times.seconds(BARE_LEARNING)
    return StepCost(acting, parallel=learning) if on_cores else StepCost(acting, device=learning)


def parts(text: str) -> tuple[bool, list[Setup]]:
    """Whether `text` names the stages, and the runs that it names."""
    words = text.split(",")
    for word in words:
        if word not in PARTS:
            raise UsageError(f"--only must name some of {', '.join(PARTS)}, with commas between them, not {word!r}.")
    return "stages" in words, [setup for setup in SETUPS if "training" in words or setup.name in words]


def distinct(setups: Sequence[Setup], given: Mapping[str, Any]) -> list[Setup]:
    """The setups without repetitions: with --network=conv3 on the command line, for example, two of them are equal."""
    kept: list[Setup] = []
    for setup in setups:
        if configure(setup, given) not in [configure(other, given) for other in kept]:
            kept.append(setup)
    return kept


def as_json(machine: Mapping[str, Any], times: Times | None, results: Sequence[RunResult]) -> dict[str, Any]:
    return {
        "machine": machine,
        "stages": {} if times is None else {name: 1 / times.seconds(name) for name in times.rounds},
        "training": [
            {
                "name": result.setup.name,
                "flags": dict(result.setup.flags),
                "cost": result.cost._asdict(),
                "ceiling": result.ceiling._asdict(),
                "ratio": result.ratio,
                **asdict(result.run),
            }
            for result in results
        ],
    }


def measure(only: str, seconds: float, path: Path | None, given: Mapping[str, Any]) -> None:
    wants_stages, setups = parts(only)
    config = Config.from_flags(given)
    check_atari(config.environment)
    device = choose_device(config.run.device)
    precision = str(choose_precision(config.run.precision, device)).removeprefix("torch.")
    machine = {"cores": usable_cores(), "device": str(device), "precision": precision, "flags": dict(given)}
    print(f"{config.environment.env}, {usable_cores()} cores, {precision}, learner on {device}", flush=True)
    times, results = None, []
    if wants_stages:
        times = measure_stages(config, seconds * STAGES_SECONDS)
        print(tables.stages_table(times, config, NETWORKS), flush=True)
    if setups:
        print(tables.RUNS_TITLE)
    for setup in distinct(setups, given):
        results.append(measure_run(setup, given, seconds))
        last = results[-1]
        print(tables.run_line(last.config, setup, last.run, last.cost, last.ceiling, usable_cores()), flush=True)
    if results:
        print(tables.WHERE_TITLE)
    for result in results:
        print(tables.where_lines(result.setup.name, result.run, result.cost, usable_cores()))
    if path is not None:
        path.write_text(json.dumps(as_json(machine, times, results), indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", default="stages,training", metavar="PARTS")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each run; the stages take twice as long")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options, flags = parser.parse_known_args()
    try:
        measure(options.only, options.seconds, options.json, given_flags(flags, OPTIONS))
    except UsageError as error:
        print(f"throughput: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
