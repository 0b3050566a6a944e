"""The plans of sweeps and searches: what they take, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution

import multi_train
from option_flags import OPTIONS
from options.command_line import flag_words, given_flags
from options.rules import UsageError
from sweeps.plan import plan_sweep, read_sweep
from sweeps.search import plan_search
from tests.sweeps.fake_sweeps import QUEUE, run_sweep

LR = {"low": 1e-4, "high": 3e-3, "log": True}
SEARCH = {"search": {"lr": LR}}


def names(definition: dict[str, Any], *words: str) -> list[str]:
    return [run.name for run in plan_sweep(definition, given_flags(words, OPTIONS)).runs]


def with_search(**ranges: Any) -> dict[str, Any]:
    return {"search": ranges}


@pytest.mark.parametrize(
    ("definition", "words", "sentence"),
    [
        ([], [], "must be an object of name"),
        ({"run": []}, [], 'unknown key "run"'),
        ({"name": "../up"}, [], 'the "name" of the sweep must be a word'),
        ({"flags": [1]}, [], 'the "flags" of the sweep must be an object'),
        ({"runs": []}, [], 'the "runs" of the sweep must be a list'),
        ({"runs": {"a": 1}}, [], 'the "runs" of the sweep must be a list'),
        ({"grid": {"lr": 1e-3}}, [], 'the "grid" of the sweep must be an object of lists'),
        ({"seeds": [1.5]}, [], 'the "seeds" of the sweep must be a list of whole'),
        ({"flags": {"results_dir": "x"}}, [], "results_dir must not be among"),
        ({"grid": {"seed": [1, 2]}}, [], '"seeds" lists them; leave it out'),
        ({}, ["--op_mode=train"], "op_mode must not be on the command line"),
        ({"runs": [{"lr": 1e-3}, {"lr": -1.0}]}, [], "run lr=-1.0_seed1: --lr must be a number above 0"),
        ({"flags": {"lrr": 1}}, [], "--lrr is not a known flag"),
        ({"flags": {"env": "PingNoFrameskip-v4"}}, [], "--env"),
        ({"grid": {"lr": [1e-3, 1e-4]}}, ["--lr=1"], "lr=0.001_seed1 and lr=0.0001_seed1 have the same name or the"),
        ({"seeds": [1, 1]}, [], "run_seed1 and run_seed1 have the same name or the same flags; each value once"),
        ({"runs": {"a b": {}, "a-b": {"lr": 1e-3}}}, [], "a-b_seed1 and a-b_seed1 have the same name"),
        ({"flags": {"flagfile": "nowhere.flags"}}, [], "--flagfile=nowhere.flags: it cannot be read"),
        ({"flags": {"flagfile": 3}}, [], "the sweep's flagfile must be a path"),
        ({}, ["--flagfile=nowhere.flags"], "--flagfile=nowhere.flags: it cannot be read"),
        (with_search(), [], 'the "search" of the sweep must be an object of ranges'),
        (with_search(lrr=LR), [], "--lrr is not a known flag; did you mean --"),
        (with_search(lr={"low": 1e-3, "high": 1e-4}), [], "`low <= high` must hold"),
        (with_search(lr={"low": 1e-3}), [], 'must be a range from "low" to "high"'),
        (with_search(lr=1e-3), [], "must be an object of low, high, log, step"),
        (with_search(lr={**LR, "log": 1}), [], 'the "log" of lr in the sweep\'s "search" must be true or false'),
        (with_search(gamma={"low": 0, "high": 0.9, "log": True}), [], "`low > 0` must hold"),
        (with_search(lr={"low": "a", "high": 1e-3}), [], 'the "low" of lr in the sweep\'s "search" must be a number'),
        (
            with_search(r_f_steps={"low": 10.5, "high": 40}),
            [],
            'the "low" of r_f_steps in the sweep\'s "search" must be',
        ),
        (with_search(network={"low": 1, "high": 2}), [], 'has the unknown key "low"; it takes choices'),
        (with_search(network={"choices": []}), [], "must be a list with at least one value"),
        (with_search(network={"choices": ["nature", "natura"]}), [], 'network in the sweep\'s "search" must be one of'),
        (
            with_search(lr={"low": -1, "high": 1}),
            [],
            'the "low" of lr in the sweep\'s "search" must be a number above 0',
        ),
        ({**SEARCH, "flags": {"c_const": 2.0}}, [], "with the last value of each range: --rho_const must be"),
        (with_search(seed={"low": 1, "high": 9}), [], "the luckiest seed"),
        (with_search(op_mode={"choices": ["test"]}), [], "starts and continues its runs by itself"),
        (with_search(flagfile={"choices": ["a"]}), [], 'its place is among "flags"'),
        ({**SEARCH, "grid": {"gamma": [0.9, 0.99]}}, [], 'the unknown key "grid"; it takes name, flags, search'),
        ({**SEARCH, "trials": 0}, [], 'the "trials" of the sweep must be a whole number of at least 1'),
        ({**SEARCH, "seeds": [1, 2]}, [], "must be a list of one whole number"),
        ({**SEARCH, "flags": {"seed": 1}}, [], "seed must not be among the sweep's flags"),
        ({**SEARCH, "sampler": {"type": "tpo"}}, [], 'the "type" of the sweep\'s "sampler" must be one of'),
        ({**SEARCH, "sampler": {"kind": "tpe"}}, [], 'the sweep\'s "sampler" has the unknown key "kind"'),
        ({**SEARCH, "pruner": {"type": "percentile", "percentile": 101}}, [], "between 0 and 100"),
        ({**SEARCH, "pruner": "median"}, [], 'the "pruner" of the sweep must be an object'),
        (SEARCH, ["--lr=1e-3"], 'lr must not be in the sweep\'s "search": the command line sets it'),
        ({}, ["--jobs=0"], "--jobs must be a whole number of at least 1, not 0"),
        ({}, ["--sweepdir=here"], "--sweepdir is not a known flag; did you mean --sweep_dir?"),
        ({}, ["--cluster=here"], "--cluster must be auto, or the address of a head such as 192.0.2.1:6379"),
        ({}, ["--cluster=auto"], "--cluster must know the CPUs that each run uses"),
        ({}, ["--job_cpus=2"], "--job_cpus has no effect without --cluster"),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], definition: Any, words: list[str], sentence: str
) -> None:
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps(definition))
    folder = tmp_path / "sweep"
    assert run_sweep([f"--sweep={path}", f"--sweep_dir={folder}", *words]) == 2
    out, errors = capsys.readouterr()
    assert out == "" and errors.count("\n") == 1 and errors.startswith("multi_train.py: ")
    assert sentence in errors
    assert not folder.exists()


@pytest.mark.parametrize("words", [["--sweep=nowhere.json"], ["--sweep=README.md"]])
def test_a_file_that_is_no_sweep_is_refused(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run_sweep(words) == 2
    errors = capsys.readouterr().err
    assert f"{words[0]} " in errors and errors.count("\n") == 1


def test_runs_grid_and_seeds_are_multiplied() -> None:
    definition = {"runs": {"a": {}, "b": {"gamma": 0.9}}, "grid": {"lr": [1e-3, 1e-4]}, "seeds": [1, 2]}
    expected = [f"{run}_lr={lr}_seed{seed}" for run in "ab" for lr in (0.001, 0.0001) for seed in (1, 2)]
    assert names(definition) == expected


def test_runs_without_a_name_are_named_after_their_flags() -> None:
    assert names({"runs": [{"lr": 2e-3}, {"replay_parameters": QUEUE}]}) == ["lr=0.002_seed1", "queue_seed1"]
    assert names({}) == ["run_seed1"]
    assert names({"grid": {"env": ["PongNoFrameskip-v4"]}}) == ["env=PongNoFrameskip-v4_seed1"]


def test_the_command_line_takes_precedence_over_the_sweep_and_the_sweep_over_defaults() -> None:
    definition = {"flags": {"lr": 1e-3, "gamma": 0.9}, "runs": [{"lr": 2e-3, "use_lstm": True}], "seeds": [1, 2]}
    (run,) = plan_sweep(definition, given_flags(["--gamma=0.8", "--seed=7"], OPTIONS)).runs
    flags = run.config.flags()
    assert (flags["lr"], flags["gamma"], flags["use_lstm"], flags["seed"]) == (2e-3, 0.8, True, 7)
    assert flags["batch_size"] == 4
    assert flag_words(run.flags) == ["--lr=0.002", "--gamma=0.8", "--use_lstm", "--seed=7"]


def test_flag_files_are_below_the_other_flags_of_their_place(tmp_path: Path) -> None:
    shared, own, given = tmp_path / "shared.flags", tmp_path / "own.flags", tmp_path / "given.flags"
    shared.write_text("--gamma=0.9\n--lr=1e-4\n--batch_size=16\n")
    own.write_text("--r_f_steps=30\n--lr=1e-5\n")
    given.write_text("--batch_size=4\n--lr=1e-6\n--r_f_steps=10\n--gradient_clip_by_norm_threshold=3\n")
    definition = {
        "flags": {"flagfile": str(shared), "gamma": 0.8},
        "runs": {"plain": {}, "own": {"flagfile": str(own)}},
        "grid": {"lr": [1e-3]},
    }
    plain, with_own = plan_sweep(definition, {}).runs
    assert dict(plain.flags) == {"gamma": 0.8, "lr": 1e-3, "batch_size": 16, "seed": 1}
    assert (with_own.flags["r_f_steps"], with_own.flags["lr"], with_own.flags["batch_size"]) == (30, 1e-3, 16)
    in_file = given_flags([f"--flagfile={given}"], OPTIONS)
    plain, with_own = plan_sweep(definition, {"gamma": 0.7}, in_file).runs
    assert plain.flags == {**in_file, "gamma": 0.7, "lr": 1e-3, "seed": 1}
    assert with_own.flags["r_f_steps"] == 30, "runs beat the flag file of the command line, as the grid does"
    search = plan_search({"flags": {"flagfile": str(shared)}, **SEARCH}, {"gamma": 0.7})
    assert search.flags == {"gamma": 0.7, "lr": 1e-4, "batch_size": 16, "seed": 1}
    assert search.configs[0].optimizer.lr == 3e-3, "the range beats it"


def test_a_flag_file_of_the_grid_is_one_of_its_values(tmp_path: Path) -> None:
    files = [tmp_path / "a.flags", tmp_path / "b.flags"]
    for gamma, file in zip((0.8, 0.9), files, strict=True):
        file.write_text(f"--gamma={gamma}\n")
    sweep = plan_sweep({"grid": {"flagfile": [str(file) for file in files]}}, {})
    assert sweep.differences(sweep.runs) == ["gamma 0.8", "gamma 0.9"]


def test_a_flag_of_the_sweep_itself_is_refused_in_flag_files(tmp_path: Path) -> None:
    file = tmp_path / "my.flags"
    file.write_text("--op_mode=train\n")
    with pytest.raises(UsageError, match=f"op_mode must not be among the flags of the sweep's flagfile {file}: .*out"):
        plan_sweep({"flags": {"flagfile": str(file)}}, {})
    with pytest.raises(UsageError, match="op_mode must not be on the command line: .*; leave it out"):
        plan_sweep({}, {}, given_flags([f"--flagfile={file}"], OPTIONS))


def test_settings_are_below_the_grid_and_the_flags_of_a_run() -> None:
    definition = {"runs": [{"batch_size": 4}], "grid": {"lr": [3e-4], "settings": ["standard", "atari_gpu"]}}
    for sweep in (
        plan_sweep(definition, {}),
        plan_sweep({**definition, "grid": {"lr": [3e-4]}}, {"settings": "atari_gpu"}),
    ):
        config = sweep.runs[-1].config
        wanted = {"lr": 3e-4, "batch_size": 4, "envs_per_worker": 4}
        assert {name: config.flags()[name] for name in wanted} == wanted
    search = plan_search({"flags": {"settings": "atari_gpu"}, **SEARCH}, {})
    assert search.configs[0].flags()["envs_per_worker"] == 4 and search.configs[0].optimizer.lr == 3e-3


def test_differing_flags_are_those_that_are_not_the_same_in_all_runs() -> None:
    mixed = [{**QUEUE[0], "sample_ratio": 0.5}, {"type": "standard", "capacity": 99, "sample_ratio": 0.5}]
    definition = {
        "flags": {"gamma": 0.9},
        "runs": {"q": {"replay_parameters": QUEUE}, "s": {"replay_parameters": mixed, "lr": 2e-3}},
    }
    sweep = plan_sweep(definition, {})
    assert sweep.differences(sweep.runs) == ["queue, lr 0.001", "0.5 queue + 0.5 standard (99), lr 0.002"]


def test_the_prepared_sweep_has_four_replays_and_two_seeds() -> None:
    sweep = plan_sweep(read_sweep(multi_train.REPLAYS), {})
    types = [[replay.type for replay in run.config.replay.replays] for run in sweep.runs[::2]]
    assert types == [["queue"], ["queue", "standard"], ["queue", "attentive"], ["queue", "elite"]]
    assert [run.config.run.seed for run in sweep.runs] == [1, 2] * 4


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


def test_defaults_of_a_search_follow_the_length_of_its_runs() -> None:
    definition = {**with_search(lr=LR, replay_parameters={"choices": [QUEUE]}), "flags": {"gamma": 0.9}}
    given = given_flags(["--gamma=0.8", "--seed=7", "--environment_max_steps=1000"], OPTIONS)
    search = plan_search(definition, given)
    assert (search.flags["gamma"], search.flags["seed"], search.trials) == (0.8, 7, 20)
    assert search.definition["sampler"]["seed"] == 7
    pruner = search.definition["pruner"]
    assert (pruner["warmup_steps"], pruner["interval_steps"]) == (200, 50)
    replays = search.space["replay_parameters"]
    assert isinstance(replays, CategoricalDistribution) and replays.choices == (json.dumps(QUEUE),)


def test_the_run_with_the_most_cpus_decides() -> None:
    sweep = {"flags": {"learner_threads": 1}, "grid": {"worker_count": [2, 5, 3]}}
    assert plan_sweep(sweep, {}).cpus_of_a_run() == 6
    flags = {"worker_count": 8, "learner_threads": 2, "learners": 4, "batch_size": 8}
    assert plan_sweep({"flags": flags}, {}).cpus_of_a_run() == 16
    search = {"flags": {"learner_threads": 1}, "search": {"worker_count": {"low": 2, "high": 5}}}
    assert plan_search(search, {}).cpus_of_a_run() == 6


@pytest.mark.parametrize(
    "flags",
    [{"worker_count": 7}, {"learner_threads": 1}, {"worker_count": 7, "learner_threads": 1, "learners": 0}],
)
def test_a_run_that_would_use_all_cores_has_no_number_of_cpus(flags: dict[str, Any]) -> None:
    for sweep in (plan_sweep({"flags": flags}, {}), plan_search({"flags": flags, **SEARCH}, {})):
        with pytest.raises(UsageError, match="must know the CPUs that each run uses"):
            sweep.cpus_of_a_run()
