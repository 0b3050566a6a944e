"""What is refused before a process starts, and how many inference processes are enough."""

import math
from typing import Any

import pytest
import torch

from agents.spaces import make_unroll_layout
from option_flags import Config
from options.rules import UsageError
from tests.composite import COMPOSITE
from workers.realtime import timing
from workers.realtime.timing import MOST_OF_CORES, check_realtime, highest_rate
from wrappers.atari import make_atari
from wrappers.make_environment import make_environment

SMALL = {"interaction": "realtime", "frame_scale_resolution": "36,36"}


def checked(workers: int = 1, games: int = 1, **options: Any) -> int:
    config = Config.from_flags({**SMALL, **options})
    layout = make_unroll_layout(config, make_atari)
    return check_realtime(config, layout, make_atari, workers, games, torch.float32)[0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"reproducible": True}, "--reproducible"),
        ({"inference": "learner"}, "--inference=worker"),
        ({"use_lstm": True}, "--inference_processes=0"),
        ({"use_lstm": True, "inference_processes": 2}, "--inference_processes=2"),
        ({"fps": -1.0}, "--fps"),
        ({"fps": float("nan")}, "--fps"),
        ({"inference_processes": -1}, "--inference_processes"),
        ({"stagger": "all"}, "--stagger"),
        ({"inference_latency": "50"}, "--inference_latency"),
        ({"inference_latency": "fixed:"}, "--inference_latency"),
    ],
)
def test_options_that_contradict_real_time_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Config.from_flags({"interaction": "realtime", **options})


def test_options_of_real_time_contradict_nothing_in_turns() -> None:
    Config.from_flags({"reproducible": True, "inference": "learner", "use_lstm": True, "stagger": "max"})
    assert checked(interaction="turns", inference_latency="fixed:word", fps=99_999.0) == 0


@pytest.mark.parametrize("latency", ["fixed:fast", "uniform:20", "measured:/no/such/file", "lognormal:50:0.3:1"])
def test_latency_models_without_numbers_are_refused(latency: str) -> None:
    with pytest.raises(UsageError, match="--inference_latency"):
        checked(inference_latency=latency)


def test_a_single_process_may_have_a_memory() -> None:
    assert checked(use_lstm=True, lstm_size=8, inference_processes=1) == 1


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        ({"inference_processes": 7, "inference_latency": "fixed:500"}, 7),
        ({"inference_latency": "fixed:500"}, 8),  # an interval is 4/60 s
        ({"inference_latency": "fixed:500", "fps": 30.0}, 4),
        ({"inference_latency": "fixed:500", "skipped_frames": 1}, 30),
        ({"inference_latency": "uniform:20:140"}, 3),
        ({"inference_latency": "measured:20,70,30"}, 2),
    ],
)
def test_as_many_processes_as_the_longest_inference_has_intervals(options: dict[str, Any], processes: int) -> None:
    assert checked(**options) == processes


def test_the_longest_time_of_log_normal_times_counts() -> None:
    """It is about 2.5 times the mean."""
    assert 8 * 2 < checked(inference_latency="lognormal:500:0.3") < 8 * 4


@pytest.mark.slow
def test_the_inference_time_of_the_network_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "highest_rate", lambda *arguments: math.inf)
    assert checked(games=8, fps=1.0) == 1
    assert checked(games=8, fps=90_000.0, skipped_frames=1) > 3


def test_a_frame_rate_that_the_machine_cannot_hold_is_refused_with_one_that_it_can() -> None:
    with pytest.raises(UsageError, match=r"--fps=90000 .* cannot|--fps=90000 is more .* frames a second; .*--fps="):
        checked(fps=90_000.0)


def test_frames_of_games_with_actions_of_several_parts_are_measured() -> None:
    assert timing.seconds_per_frame(Config.from_flags({"env": COMPOSITE}), make_environment) > 0


def refusal(monkeypatch: pytest.MonkeyPatch, **options: Any) -> str:
    """What is said of 151 games, of which a machine with two cores could play 150."""
    monkeypatch.setattr(timing, "usable_cores", lambda: 2)
    monkeypatch.setattr(timing, "seconds_per_frame", lambda *arguments: 0.0001)
    monkeypatch.setattr(timing, "inference_times", lambda *arguments: [0.0])
    with pytest.raises(UsageError) as raised:
        checked(workers=2, games=151, fps=60.0, inference_processes=1, **options)
    return str(raised.value)


def test_the_sentence_names_what_the_machine_can_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    held = "2 × 151 games in 2 cores reach 59 frames a second"
    assert f"{held}; --envs_per_worker=150 or fewer, or --fps=59, would be right" in refusal(monkeypatch)
    in_test = refusal(monkeypatch, op_mode="test", load_model_url="results")
    assert f"{held}; --fps=59 or less would be right" in in_test, "a test has no number of environments to choose"


@pytest.mark.parametrize(
    ("games", "inference", "inference_cores", "cores", "rate"),
    [
        (0.015, 0, 1, 0.9, 60),
        (0.015, 0, 1, 1.8, 60),  # a worker plays in one core
        (0.015, 0, 1, 0.45, 30),  # two workers share it
        (0.015, 0.015, 1, 1.8, 60),  # 15 ms for the games, and as much in the other core for the inferences
        (0.015, 0.03, 1, 1.8, 0.8 / 0.015),  # its process has a core of its own
        (0.015, 0.03, 0.9, 1.8, 60),  # their process cannot use more
        (0.01, 0.005, 1, 0.9, 60),
    ],
)
def test_the_highest_rate(games: float, inference: float, inference_cores: float, cores: float, rate: float) -> None:
    assert MOST_OF_CORES == 0.9
    assert highest_rate(games, inference, inference_cores, cores) == pytest.approx(rate)
