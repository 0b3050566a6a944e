"""Training and tests in real time, with real processes. Nothing here depends on how fast they are."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from agents.spaces import read_spec, settle_fps
from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config
from options.presets import FRESH_ALONE
from run_files.checkpoint import find_checkpoint
from tests.processes import forked
from tests.read_metrics import read_metrics
from training.train import train
from wrappers.atari import make_atari
from wrappers.make_environment import make_environment

SMALL: dict[str, Any] = {
    "interaction": "realtime",
    "fps": 120.0,
    "inference_processes": 2,
    "inference_latency": "uniform:5:25",
    "worker_count": 1,
    "envs_per_worker": 4,
    "r_f_steps": 5,
    "batch_size": 4,
    "replay_parameters": FRESH_ALONE,
    "frame_scale_resolution": "36,36",
    "environment_max_steps": 200,
    "report_period": 40,
    "max_game_frames": 60,
    "seed": 1,
    "eval_period": 200,
    "eval_episode_count": 2,
    "console": "off",
    "curves": False,
}


@pytest.mark.slow
def test_a_run_in_real_time_can_be_resumed_and_tested(tmp_path: Path) -> None:
    small = {**SMALL, "results_dir": str(tmp_path)}
    folder = train(Config.from_flags(small), make_atari)
    reports: list[Any] = read_metrics(folder / "metrics.jsonl")
    last = reports[-1]
    assert last["agent_steps"] == 200
    assert last["updates"] == 200 // 20
    assert last["episodes"] > 0, "the time limit cuts games off"
    for report in reports:
        assert 5 <= report["inference_ms_mean"] <= report["inference_ms_max"]
        assert 1 <= report["needed_processes_mean"] <= report["needed_processes_max"]
        assert 0 <= report["idle_share"] <= 1 and 0 <= report["missed_share"] <= 1
        assert report["dropped_unrolls"] >= 0
        if report["action_age_mean"] is not None:  # on a busy machine, games may end before an action takes effect
            assert 0 <= report["action_age_mean"] <= report["action_age_max"]
    assert last["frames"] > 0, "200 * 4 only if the machine keeps to the clock; test_action_timing.py counts them"
    evaluations: list[Any] = read_metrics(folder / "evaluations.jsonl")
    assert evaluations[0]["eval_episodes"] == 2
    config = json.loads((folder / "config.json").read_text())
    assert config["machine"]["inference_processes"] == 2

    checkpoint = find_checkpoint(str(folder))
    more = {"environment_max_steps": 240, "eval_period": 0}
    resumed = train(Config.from_flags({**checkpoint.options, **more}), make_atari, checkpoint)
    after: Any = read_metrics(resumed / "metrics.jsonl")[-1]
    assert (after["agent_steps"], after["updates"]) == (240, 12)
    assert after["frames"] > last["frames"]

    options = {**checkpoint.played_options, "op_mode": "test", "load_model_url": str(folder), "console": "off"}
    test = Config.from_flags({**options, "test_episode_count": 3, "worker_count": 1, "max_game_frames": 60})
    path = score_checkpoint(test, make_atari, checkpoint)
    assert path is not None
    results = json.loads(path.read_text())
    assert results["games"] == 3
    assert (results["interaction"], results["fps"], results["inference_processes"]) == ("realtime", 120, 2)
    assert results["cut_off_games"] == [0, 1, 2]
    assert results["lengths"] == [length for length in results["lengths"] if 0 < length <= 15]
    assert results["inference_latency"] == "uniform:5:25"

    # As if the times of the training had been those of its network.
    checkpoint.content["options"]["inference_latency"] = None
    measured = checkpoint.content["progress"]["action_ms"]
    assert measured is not None and measured >= 5
    trained = Config.from_flags({**test.flags(), "inference_latency": None, "test_episode_count": 1})
    path = score_checkpoint(trained, make_atari, checkpoint)
    assert path is not None
    assert json.loads(path.read_text())["inference_latency"] == f"fixed:{measured:.4g}"
    assert not forked()


@pytest.mark.slow
def test_any_environment_is_played_by_its_own_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = {**SMALL, "env": "Pendulum-v1", "inference_latency": "fixed:5", "inference_processes": 0, "fps": 0.0}
    flags |= {"environment_max_steps": 160, "report_period": 80, "eval_period": 0, "results_dir": str(tmp_path)}
    for name in ("frame_scale_resolution", "max_game_frames"):
        del flags[name]
    config = Config.from_flags({**flags, "max_game_frames": 15, "batch_size": 2, "console": "plain"})
    folder = train(settle_fps(config, read_spec(config, make_environment)), make_environment)
    assert re.search(r"^an inference for 4 games takes \d+\.\d ms$", capsys.readouterr().out, re.MULTILINE)
    assert json.loads((folder / "config.json").read_text())["options"]["fps"] == 30
    last: Any = read_metrics(folder / "metrics.jsonl")[-1]
    assert last["agent_steps"] == 160 and last["updates"] == 16
    assert last["episodes"] > 0 and last["return_mean"] < 0

    checkpoint = find_checkpoint(str(folder))
    options = {**checkpoint.played_options, "op_mode": "test", "load_model_url": str(folder), "console": "off"}
    test = Config.from_flags(
        {**options, "test_episode_count": 2, "worker_count": 1, "render": True, "max_game_frames": 15}
    )
    path = score_checkpoint(test, make_environment, checkpoint)
    assert path is not None
    results = json.loads(path.read_text())
    assert (results["interaction"], results["fps"], results["lengths"]) == ("realtime", 30, [15, 15])
    assert len(list((folder / "videos").glob("*.mp4"))) == 2
