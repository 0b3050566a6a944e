"""The rules of single options: their types, ranges and words, and the error messages."""

import json
import math
from typing import Any

import pytest

from option_flags import OPTIONS, Config, ReplayOptions, RunOptions
from options.presets import FRESH_ALONE
from options.rules import UsageError
from tests.options.words import one_line

BAD_VALUES: dict[type, list[object]] = {
    bool: [1, 0, "true", None, 1.0],
    int: [True, "1", math.nan, math.inf, -math.inf, -1, 2.0, [1]],
    float: [True, "1", None, math.nan, math.inf, -math.inf, -1, [1]],
    str: [1, "", "-", ["auto"]],
}


@pytest.mark.parametrize("kind", [bool, int, float, str])
def test_every_option_refuses_values_of_another_type_or_range(kind: type) -> None:
    for name, item in OPTIONS.items():
        rule = item.metadata["rule"]
        for value in BAD_VALUES[kind] if rule.kind is kind else []:
            if name == "load_model_url" and value == "-":  # any text may be a path
                continue
            if value is None and rule.optional:
                continue
            if name == "stop_at_return" and value == -1:  # returns may be negative
                continue
            with pytest.raises(UsageError, match=f"^--{name}") as caught:
                Config.from_flags({name: value})
            if kind is not str:
                assert str(caught.value) == f"--{name} must {rule.wanted}, not {json.dumps(value)}."
            one_line(caught.value)


def test_only_optional_options_may_be_unset() -> None:
    for name, item in OPTIONS.items():
        if item.default is None:
            assert Config.from_flags({name: None}).flags()[name] is None
        else:
            with pytest.raises(UsageError, match=f"^--{name} must .*, not null.$"):
                Config.from_flags({name: None})


def test_texts_refuse_unknown_words() -> None:
    texts = [name for name, item in OPTIONS.items() if item.metadata["rule"].kind is str]
    for name in [name for name in texts if name not in ("results_dir", "load_model_url", "demonstrations")]:
        for value in ("no such thing", "auto\n"):
            with pytest.raises(UsageError, match=f"^--{name}") as caught:
                Config.from_flags({name: value})
            one_line(caught.value)


@pytest.mark.parametrize(
    ("name", "inside", "outside"),
    [
        ("seed", [0, 2**31 - 1], [-1, 2**31]),
        ("slots_per_worker", [0, 8], [-1, 9]),
        ("worker_count", [0], [-1]),
        ("batch_size", [1], [0]),
        ("environment_max_steps", [1], [0]),
        ("noop_threshold", [0], [-1]),
        ("repeat_action_probability", [0, 1], [-0.01, 1.01]),
        ("training_fill_in_factor", [0, 1], [-0.01, 1.01]),
        ("gamma", [0, 1], [-0.01, 1.01]),
        ("trace_lambda", [0, 1], [-0.01, 1.5]),
        ("lr", [1e-9], [0, 10**400]),
        ("rmsprop_alpha", [0, 0.999], [1, -0.1]),
        ("gradient_clip_by_norm_threshold", [0, 40], [-0.5]),
        ("device", ["cpu", "mps", "cuda", "cuda:0"], ["gpu", "cuda:", "cuda:x", "CPU"]),
        (
            "frame_scale_resolution",
            ["1,1", "210,160"],
            ["84x84", "84", "84,0", "84,84,3", "84, 84", "-1,84", "\uff18,\uff18"],
        ),
        ("env", ["MsPacmanNoFrameskip-v4"], ["Ms Pacman", "--seed", "/Pong"]),
    ],
)
def test_limits(name: str, inside: list[Any], outside: list[Any]) -> None:
    for value in inside:
        assert Config.from_flags({"replay_parameters": FRESH_ALONE, name: value}).flags()[name] == value
    for value in outside:
        with pytest.raises(UsageError, match=f"^--{name} must "):
            Config.from_flags({name: value})


def test_dataclasses_made_in_python_are_checked_too() -> None:
    with pytest.raises(UsageError, match=r"^--seed must be a whole number between 0 and 2147483647, not -1\.$"):
        RunOptions(seed=-1)
    with pytest.raises(UsageError, match=r"^--batch_size must be a whole number of at least 1, not true\.$"):
        ReplayOptions(batch_size=True)
