"""What games in real time need of the machine, checked before any process starts."""

import math
import time

import numpy as np
import torch

from agents.acting import Actor
from agents.network import make_network
from machine.capacity import usable_cores, usable_memory
from machine.process_memory import PART_OF_FREE, format_bytes
from option_flags import Config, RealtimeOptions
from options.rules import UsageError
from realtime.latency import LatencyModel, parse_latency
from realtime.staggering import needed_processes
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs
from wrappers.environment import MakeEnvironment

MEASURED_FRAMES, MEASURED_PARTS = 60, 5  # frames in each part; the fastest part counts
MEASURED_INFERENCES = 30
DRAWN_TIMES = 1000  # to find the longest time of a model without a bound
PROCESS_BYTES = 48 << 20  # of an inference process, without what it shares with its siblings
MOST_OF_CORES = 0.9  # what games and inferences may take of them


def latency_model(options: RealtimeOptions) -> LatencyModel | None:
    """The model of --inference_latency; UsageError if it has no numbers."""
    return None if options.inference_latency is None else parse_latency(options.inference_latency)


def check_realtime(
    config: Config,
    layout: UnrollLayout,
    make_environment: MakeEnvironment,
    workers: int,
    games: int,
    compute_dtype: torch.dtype,
) -> int:
    """The number of inference processes of each of these workers or players with so many games; 0 without real time.

    UsageError if the machine cannot hold the frame rate, or has too little memory for the processes.
    """
    if not config.environment.in_real_time:
        return 0
    latency = latency_model(config.realtime)
    times = inference_times(config, layout, games, compute_dtype)
    skipped_frames = config.environment.skipped_frames
    processes = config.realtime.inference_processes
    if not processes:
        longest = max(*times, 0.0 if latency is None else longest_latency(latency))
        processes = needed_processes(longest, skipped_frames / config.realtime.fps)
    mean = sum(times) / len(times)
    check_frame_rate(
        config.realtime.fps,
        seconds_per_frame(config, make_environment),
        mean / skipped_frames,
        processes * (1.0 if latency is None else mean / max(mean, latency.mean / 1000)),
        workers,
        games,
        in_test=config.run.op_mode == "test",
    )
    check_memory(processes, workers)
    return processes


def check_frame_rate(
    fps: float,
    game_seconds: float,
    inference_seconds: float,
    inference_cores: float,
    workers: int,
    games: int,
    *,
    in_test: bool = False,
) -> None:
    """UsageError if games and inferences cannot keep to this rate.

    `game_seconds` are those that a frame of one game takes of a core, `inference_seconds` those that all inferences
    take in the time of a frame, and `inference_cores` the most that the inference processes of a worker can use. A
    worker plays its games in one core.
    """
    cores, games_together = MOST_OF_CORES * usable_cores() / workers, games * game_seconds
    # Inferences take a share of every frame, or all that their processes can use, whichever is less.
    most = max(cores / (games_together + inference_seconds), (cores - inference_cores) / games_together)
    most = min(MOST_OF_CORES / games_together, most)
    if fps > most:
        fitting = int(games * most / fps)  # an inference for fewer games takes about as much less
        remedy = f"--fps={_rounded_down(most)} or less"
        if fitting and not in_test:
            remedy = f"--envs_per_worker={fitting} or fewer, or --fps={_rounded_down(most)},"
        raise UsageError(
            f"--fps={fps:g} is more than this machine can hold: {workers} × {games} games in {usable_cores()} cores "
            f"reach {_rounded_down(most)} frames a second; {remedy} would be right."
        )


def open_unrolls(processes: int, unroll_length: int, workers: int, games: int) -> int:
    """How many unrolls all workers keep: until their actions have had their effect, and then until there is a slot."""
    return (3 + 2 * (processes // unroll_length)) * workers * games if processes else 0


def check_memory(processes: int, workers: int) -> None:
    """UsageError if the inference processes do not fit into the free memory."""
    room = int(PART_OF_FREE * usable_memory())
    if processes * workers * PROCESS_BYTES > room:
        fitting = room // PROCESS_BYTES // workers
        remedy = f"--inference_processes={fitting} or fewer" if fitting else "fewer workers"
        raise UsageError(
            f"--inference_processes={processes} for each of {workers} workers needs {format_bytes(PROCESS_BYTES)} for "
            f"each process, more than the {format_bytes(room)} of memory that is free; {remedy} would be right."
        )


def seconds_per_frame(config: Config, make_environment: MakeEnvironment) -> float:
    """CPU seconds that a frame of one game takes, with its share of the looks at it. Other programs do not count."""
    environment = make_environment(config.environment, 0)
    look = environment.get_wrapper_attr("look")
    environment.reset(seed=0)
    fastest = math.inf
    for _ in range(MEASURED_PARTS):
        begun = time.process_time()
        for frame in range(MEASURED_FRAMES):
            _, _, terminated, truncated, _ = environment.step(0)
            if frame % config.environment.skipped_frames == 0:
                look()
            if terminated or truncated:
                environment.reset()
        fastest = min(fastest, time.process_time() - begun)
    environment.close()
    return max(fastest, 1e-6) / MEASURED_FRAMES


def longest_latency(latency: LatencyModel) -> float:
    """The longest time of the model, or of many draws if it has no bound, in seconds."""
    longest = latency.longest
    if math.isinf(longest):
        longest = float(latency.sample(np.random.default_rng(0), DRAWN_TIMES).max())
    return longest / 1000


def inference_times(config: Config, layout: UnrollLayout, games: int, compute_dtype: torch.dtype) -> list[float]:
    """The CPU seconds of some inferences of the network for so many games."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in an inference process
    actor = Actor(make_network(config.network, layout, compute_dtype))
    inputs = PolicyInputs.at_start(games, layout)
    times = []
    for _ in range(MEASURED_INFERENCES):
        begun = time.thread_time()
        actor.act(inputs.pictures, inputs.state, inputs.uniforms)
        times.append(time.thread_time() - begun)
    torch.set_num_threads(threads)
    return times[3:]  # the first ones take longer


def _rounded_down(rate: float) -> float | int:
    """A frame rate to show."""
    return int(rate) if rate >= 10 else math.floor(10 * rate) / 10
