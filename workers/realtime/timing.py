"""How long inferences take, and what games in real time need of the machine, checked before any process starts.

Times in milliseconds for slower networks are written as text such as `lognormal:50:0.3`.
"""

import math
import re
import time
from pathlib import Path
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from agents.acting import Actor
from agents.network import ActorCritic
from machine.capacity import usable_cores
from option_flags import Config, RealtimeOptions
from options.rules import UsageError, shown
from replay.unroll_layout import UnrollLayout
from workers.policy_inputs import PolicyInputs
from workers.realtime.schedule import needed_processes
from wrappers.environment import MakeEnvironment, environment_spec
from wrappers.timeline import Timeline

Times = NDArray[np.float64]  # [n] milliseconds

SUBJECT = "--inference_latency"
MOST = 600_000.0  # ten minutes
WANTED = (
    "be fixed:TIME, uniform:LOW:HIGH, lognormal:MEAN:SIGMA with a SIGMA of at most 3, measured:FILE or "
    f"measured:TIME,TIME,... with times in milliseconds above 0 and at most {MOST:,.0f}, the lower one first"
)
QUANTILES = 1000  # times that stand for a distribution
MEASURED_FRAMES, MEASURED_PARTS = 60, 5  # frames in each part; the fastest part counts
MEASURED_INFERENCES = 30
MOST_OF_CORES = 0.9  # what games and inferences may take of them


def parse_latency(text: str) -> Times:
    """Times that are equally likely, as the text describes them. UsageError if it describes none.

    * `fixed:TIME`: always this time.
    * `uniform:LOW:HIGH`: times from LOW to HIGH.
    * `lognormal:MEAN:SIGMA`: the logarithm of the time is normal with deviation SIGMA; MEAN is the mean of the time. So
      the median is MEAN · exp(−SIGMA² / 2), and MEAN can be compared with the times of the other models.
    * `measured:FILE` or `measured:TIME,TIME,...`: these times. Those in a file are separated by commas, blanks or
      lines.
    """
    kind, _, values = text.partition(":")
    if kind == "measured" and values:
        return _measured_times(values, text)
    numbers = [_number(word) for word in values.split(":")]
    match kind, *numbers:
        case ["fixed", float(time)] if 0 < time <= MOST:
            return np.array([time])
        case ["uniform", float(low), float(high)] if 0 < low <= high <= MOST:
            return np.linspace(low, high, QUANTILES)
        case ["lognormal", float(mean), float(sigma)] if 0 < mean <= MOST and sigma <= 3:
            places = (np.arange(QUANTILES) + 0.5) / QUANTILES
            times = np.exp([sigma * NormalDist().inv_cdf(place) for place in places])
            return np.asarray(mean * times / times.mean())
    raise UsageError(f"{SUBJECT} must {WANTED}, not {shown(text)}.")


def _number(word: str) -> float | None:
    """The number that the word is, as people write it; None for other words, such as nan, 1_0 or −1."""
    return float(word) if re.fullmatch(r"(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", word, re.ASCII) else None


def _measured_times(values: str, text: str) -> Times:
    content = values
    if "," not in values and _number(values) is None:
        try:
            content = Path(values).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not text"
            raise UsageError(
                f"{SUBJECT}={text} must name a file of times in milliseconds, or list them as in measured:20,25; "
                f"{values} cannot be read ({reason})."
            ) from None
    times = []
    for word in re.split(r"[\s,]+", content.strip(" \t\r\n,")):
        number = _number(word)
        if number is None or not 0 < number <= MOST:
            raise UsageError(
                f"{SUBJECT}={text} must have times in milliseconds above 0 and at most {MOST:,.0f}, "
                f"but one is {shown(word)}."
            )
        times.append(number)
    return np.array(times)


def latencies(options: RealtimeOptions) -> Times | None:
    """The times of --inference_latency; UsageError if it describes none."""
    return None if options.inference_latency is None else parse_latency(options.inference_latency)


def check_realtime(
    config: Config,
    layout: UnrollLayout,
    make_environment: MakeEnvironment,
    workers: int,
    games: int,
    compute_dtype: torch.dtype,
) -> tuple[int, float]:
    """How many inference processes each of these workers or players with so many games has, and the mean milliseconds
    of an inference; 0 without real time.

    UsageError if the machine cannot hold the frame rate.
    """
    if not config.environment.in_real_time:
        return 0, 0.0
    options, skipped_frames = config.realtime, config.environment.skipped_frames
    latency = latencies(options)
    times = inference_times(config, layout, games, compute_dtype)
    longest = max(*times, 0.0 if latency is None else float(latency.max()) / 1000)
    processes = options.inference_processes or needed_processes(longest, skipped_frames / options.fps)
    mean = sum(times) / len(times)
    busy = 1.0 if latency is None else mean / max(mean, float(latency.mean()) / 1000)  # the part of a process's time
    most = highest_rate(
        games * seconds_per_frame(config, make_environment),
        mean / skipped_frames,
        processes * busy,
        MOST_OF_CORES * usable_cores() / workers,
    )
    if options.fps > most:
        # An inference for fewer games takes about as much less.
        fitting = 0 if config.run.op_mode == "test" else int(games * most / options.fps)
        remedy = f"--fps={_rounded_down(most)} or less"
        if fitting:
            remedy = f"--envs_per_worker={fitting} or fewer, or --fps={_rounded_down(most)},"
        raise UsageError(
            f"--fps={options.fps:g} is more than this machine can hold: {workers} × {games} games in {usable_cores()} "
            f"cores reach {_rounded_down(most)} frames a second; {remedy} would be right."
        )
    return processes, 1000 * mean


def highest_rate(game_seconds: float, inference_seconds: float, inference_cores: float, cores: float) -> float:
    """Frames a second that one worker can hold if it and its inference processes have so many cores.

    A frame of all its games takes `game_seconds` of one core. The inferences in the time of a frame take
    `inference_seconds`, or all that their processes can use, `inference_cores`, whichever is less.
    """
    most = max(cores / (game_seconds + inference_seconds), (cores - inference_cores) / game_seconds)
    return min(MOST_OF_CORES / game_seconds, most)  # it plays its games in one core


def seconds_per_frame(config: Config, make_environment: MakeEnvironment) -> float:
    """CPU seconds that a frame of one game takes, with its share of the looks at it. Other programs do not count."""
    environment = make_environment(config.environment, 0)
    look = environment.get_wrapper_attr("look")
    environment.reset(seed=0)
    noop = Timeline(environment_spec(environment), config.environment).playing.action
    fastest = math.inf
    for _ in range(MEASURED_PARTS):
        begun = time.process_time()
        for frame in range(MEASURED_FRAMES):
            _, _, terminated, truncated, _ = environment.step(noop)
            if frame % config.environment.skipped_frames == 0:
                look()
            if terminated or truncated:
                environment.reset()
        fastest = min(fastest, time.process_time() - begun)
    environment.close()
    return max(fastest, 1e-6) / MEASURED_FRAMES


def inference_times(config: Config, layout: UnrollLayout, games: int, compute_dtype: torch.dtype) -> list[float]:
    """The CPU seconds of some inferences of the network for so many games."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in an inference process
    actor = Actor(ActorCritic(config.network, layout, compute_dtype))
    inputs = PolicyInputs.at_start(games, layout)
    times = []
    for _ in range(MEASURED_INFERENCES):
        begun = time.thread_time()
        actor.act(inputs.pictures, inputs.state, inputs.uniforms, inputs.vectors)
        times.append(time.thread_time() - begun)
    torch.set_num_threads(threads)
    return times[3:]  # the first ones take longer


def _rounded_down(rate: float) -> float | int:
    """A frame rate to show."""
    return int(rate) if rate >= 10 else math.floor(10 * rate) / 10
