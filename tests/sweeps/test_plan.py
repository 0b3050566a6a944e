"""The plans of sweeps."""

import json
from pathlib import Path
from typing import Any

import pytest

import multi_train
from option_flags import OPTIONS
from options.command_line import flag_words, given_flags
from options.rules import UsageError
from sweeps.plan import plan_sweep
from tests.sweeps.fake_sweeps import QUEUE

pytestmark = pytest.mark.slow


def names(definition: dict[str, Any], *words: str) -> list[str]:
    return [run.name for run in plan_sweep(definition, given_flags(words, OPTIONS)).runs]


def test_runs_grid_and_seeds_are_multiplied() -> None:
    definition = {"runs": {"a": {}, "b": {"gamma": 0.9}}, "grid": {"lr": [1e-3, 1e-4]}, "seeds": [1, 2]}
    expected = [f"{run}_lr={lr}_seed{seed}" for run in "ab" for lr in (0.001, 0.0001) for seed in (1, 2)]
    assert names(definition) == expected


def test_runs_without_a_name_are_named_after_their_flags() -> None:
    assert names({"runs": [{"lr": 2e-3}, {"replay_parameters": QUEUE}]}) == ["lr=0.002_seed1", "queue_seed1"]
    assert names({}) == ["run_seed1"]
    assert names({"grid": {"env": ["ALE/x", "PongNoFrameskip-v4"][1:]}}) == ["env=PongNoFrameskip-v4_seed1"]


def test_the_command_line_takes_precedence_over_the_sweep_and_the_sweep_over_defaults() -> None:
    definition = {"flags": {"lr": 1e-3, "gamma": 0.9}, "runs": [{"lr": 2e-3, "use_lstm": True}], "seeds": [1, 2]}
    sweep = plan_sweep(definition, given_flags(["--gamma=0.8", "--seed=7"], OPTIONS))
    (run,) = sweep.runs
    flags = run.config.flags()
    assert (flags["lr"], flags["gamma"], flags["use_lstm"], flags["seed"]) == (2e-3, 0.8, True, 7)
    assert flags["batch_size"] == 8
    assert flag_words(run.flags) == ["--lr=0.002", "--gamma=0.8", "--use_lstm", "--seed=7"]


def test_differing_flags_are_those_that_are_not_the_same_in_all_runs() -> None:
    mixed = [{**QUEUE[0], "sample_ratio": 0.5}, {"type": "standard", "capacity": 99, "sample_ratio": 0.5}]
    definition = {
        "flags": {"gamma": 0.9},
        "runs": {"q": {"replay_parameters": QUEUE}, "s": {"replay_parameters": mixed, "lr": 2e-3}},
    }
    sweep = plan_sweep(definition, {})
    differs = [sweep.differing_flags(run) for run in sweep.runs]
    assert differs == ["queue, lr=0.001", "0.5 queue + 0.5 standard (99), lr=0.002"]


def test_the_built_in_sweep_has_four_replays_and_two_seeds() -> None:
    types = [[replay["type"] for replay in run["replay_parameters"]] for run in multi_train.SWEEP["runs"].values()]
    assert types == [["queue"], ["queue", "standard"], ["queue", "attentive"], ["queue", "elite"]]
    assert multi_train.SWEEP["seeds"] == [1, 2]
    sweep = plan_sweep(multi_train.SWEEP, {})
    assert len(sweep.runs) == 8
    elite = sweep.runs[-1].config.replay.replays[1]
    assert (elite.lambda_batch_multiplier, elite.alfa_annealing_factor) == (6, 2.0)
    assert (elite.dist_function, elite.elite_sampling_strategy) == ("ln_norm", "lowest_least_sampled")


def test_an_error_in_a_flag_names_the_run() -> None:
    with pytest.raises(UsageError, match="run a_seed1: --lr must"):
        plan_sweep({"runs": {"a": {"lr": "fast"}}}, {})


def test_an_exception_of_the_users_code_keeps_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken_games.py").write_text("import math\nmath.unknown()\n")
    (tmp_path / "sweep.json").write_text(json.dumps({"flags": {"env": "broken_games:X-v0"}}))
    monkeypatch.chdir(tmp_path)
    assert multi_train.main(["--sweep=sweep.json"]) == 2
    *details, sentence = capsys.readouterr().err.splitlines()
    assert sentence.startswith("multi_train.py: the sweep's run run_seed1: --env=broken_games:X-v0: importing")
    assert any("math.unknown()" in line for line in details)


@pytest.mark.parametrize("name", ["../x", "a b", "x" * 81])
def test_a_name_that_is_no_folder_is_refused(name: str) -> None:
    """It would silently become another one."""
    with pytest.raises(UsageError, match="no name of a folder"):
        plan_sweep({"runs": {name: {}, "other": {"lr": 1e-4}}}, {})
