"""Predict the speed with more cores and a GPU from measurements on this machine."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from machine.capacity import usable_cores
from machine.device import learner_threads
from option_flags import OPTIONS, Config
from options.command_line import given_flags
from options.rules import UsageError
from tests.benchmarks.ceiling import Speed, StepCost, fastest, serial_and_parallel
from tests.benchmarks.drain import MIX, Drained, measure_drain
from tests.benchmarks.stages import COPY, PUBLISH, UPDATE, WORKER, Bench, learning_stages, weight_stages, worker_stages
from tests.benchmarks.timing import Stage, in_turns, one_core
from wrappers.emulator import check_atari

CORES = (1, 2, 4, 8, 16, 32, 64)
DRAIN_TITLE = f"{'workers':>7}  {'the learner does':<30}{'unrolls/s':>10}{'steps/s':>11}{'µs of CPU an unroll':>21}"


def measured_costs(bench: Bench, drained: Sequence[Drained], seconds: float) -> dict[str, float]:
    """Seconds per agent step of each part of the model, as measured now."""
    with one_core():
        stages = [stage for stage in worker_stages(bench) if stage.name == WORKER]
        times = in_turns([*stages, *weight_stages(bench)], seconds)
    largest = max((one for one in drained if one.work == MIX), key=lambda one: one.workers)
    serial, parallel = update_parts(bench, seconds)
    learned = bench.config.replay.batch_size / bench.config.fresh_unrolls_per_update
    return {
        "worker": times.seconds(WORKER) + times.seconds(COPY),
        "drain_and_mix": largest.cpu_seconds / bench.layout.unroll_length,
        "publish": times.seconds(PUBLISH),
        "update_serial": serial * learned,
        "update_parallel": parallel * learned,
    }


def update_parts(bench: Bench, seconds: float) -> tuple[float, float]:
    """Serial and parallel seconds of an update, per step of its batch.

    Together they are the CPU time of one thread. They are divided by the shortest wall-clock times with one thread and
    with one thread a core: other programs lengthen all other times.
    """
    update = next(stage for stage in learning_stages(bench) if stage.name == UPDATE)
    with one_core():
        alone = in_turns([update], seconds / 2).seconds(UPDATE)
    if bench.device.type == "cuda" or usable_cores() == 1:
        return alone, 0.0
    counts = (1, usable_cores())
    before = torch.get_num_threads()

    def with_threads(count: int) -> Stage:
        def run() -> None:
            torch.set_num_threads(count)
            update.run()

        return Stage(f"{count} threads", run, update.steps, in_learner=True, by_wall_clock=True)

    try:
        times = in_turns([with_threads(count) for count in counts], seconds)
    finally:
        torch.set_num_threads(before)
    serial, parallel = serial_and_parallel([(count, min(times.rounds[f"{count} threads"])) for count in counts])
    part = parallel / (serial + parallel)
    return alone * (1 - part), alone * part


def predict(
    costs: Mapping[str, float], learner_steps_per_second: float, learned: float, measured_on_gpu: bool
) -> dict[int, dict[str, Speed]]:
    """The speed for each number of cores, and each device of the learner whose speed is known.

    `learned` is the number of steps learned from for each step played.
    """
    gpu_seconds = learned / learner_steps_per_second if learner_steps_per_second else 0.0
    if measured_on_gpu:
        gpu_seconds = gpu_seconds or costs["update_serial"]
    other_work = costs["drain_and_mix"] + costs["publish"]
    on_cpu = StepCost(costs["worker"], other_work + costs["update_serial"], costs["update_parallel"])
    on_gpu = StepCost(costs["worker"], other_work, device=gpu_seconds)
    speeds: dict[int, dict[str, Speed]] = {cores: {} for cores in CORES}
    for cores, places in speeds.items():
        if not measured_on_gpu:
            places["learner on the CPU"] = fastest(on_cpu, cores, max(1, cores // 2))
        if gpu_seconds:
            places["learner on a GPU"] = fastest(on_gpu, cores, 1)
    return speeds


def drain_lines(drained: Sequence[Drained], unroll_length: int) -> str:
    lines = []
    for one in drained:
        steps = one.unrolls_per_second * unroll_length
        lines.append(
            f"{one.workers:>7}  {one.work:<30}{one.unrolls_per_second:>10,.0f}{steps:>11,.0f}"
            f"{1e6 * one.cpu_seconds:>21,.1f}"
        )
    return "\n".join(lines)


def model_table(speeds: Mapping[int, Mapping[str, Speed]]) -> str:
    lines = [f"{'cores':>5}  {'':<20}{'steps/s':>9}  {'limited by':<11}{'busy workers':>12}"]
    for cores, places in speeds.items():
        for place, one in places.items():
            lines.append(
                f"{cores:>5}  {place:<20}{one.steps_per_second:>9,.0f}  {one.limited_by:<11}{one.busy_workers:>12.1f}"
            )
    return "\n".join(lines)


def measure(options: argparse.Namespace, given: Mapping[str, Any]) -> None:
    config = Config.from_flags(given)
    check_atari(config.environment)
    bench = Bench(config)
    torch.set_num_threads(config.run.learner_threads or learner_threads(bench.device))
    torch.set_flush_denormal(True)
    drained: list[Drained] = []
    print(DRAIN_TITLE)
    for workers in options.workers:
        lines = measure_drain(bench, workers, options.seconds)
        drained += lines
        print(drain_lines(lines, config.replay.r_f_steps), flush=True)
    costs = measured_costs(bench, drained, 4 * options.seconds)
    print("µs per agent step: " + ", ".join(f"{name} {1e6 * value:.1f}" for name, value in costs.items()))
    learned = config.replay.batch_size / config.fresh_unrolls_per_update
    if bench.device.type == "cpu" and not costs["update_parallel"]:
        print(
            "more threads made no update faster here; if other programs were running, this may differ on other machines"
        )
    speeds = predict(costs, options.learner_steps_per_second, learned, bench.device.type == "cuda")
    print(model_table(speeds))
    if options.json is not None:
        content = {
            "drained": [asdict(one) for one in drained],
            "seconds_per_step": costs,
            "model": {
                cores: {place: one._asdict() for place, one in places.items()} for cores, places in speeds.items()
            },
        }
        options.json.write_text(json.dumps(content, indent=2) + "\n")


def main(description: str) -> int:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--workers", type=int, nargs="+", default=list(CORES), help="numbers of recorded workers")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of each measurement of the learner")
    parser.add_argument("--learner_steps_per_second", type=float, default=0.0, help="speed of Learner.update on a GPU")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options, flags = parser.parse_known_args()
    try:
        measure(options, given_flags(flags, OPTIONS))
    except UsageError as error:
        print(f"scale: {error}", file=sys.stderr)
        return 2
    return 0
