"""What a search takes, and what it refuses."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from option_flags import OPTIONS
from options.command_line import given_flags
from sweeps.search_plan import is_search, plan_search
from tests.sweeps.fake_sweeps import QUEUE, ROOT, run_sweep

pytestmark = pytest.mark.slow
LR = {"low": 1e-4, "high": 3e-3, "log": True}


def with_search(**ranges: Any) -> dict[str, Any]:
    return {"search": ranges}


@pytest.mark.parametrize(
    ("definition", "words", "sentence"),
    [
        (with_search(), [], '"search" must be an object of ranges'),
        ({"search": [1]}, [], '"search" must be an object of ranges'),
        (with_search(lrr=LR), [], "--lrr is not a known flag; did you mean --"),
        (with_search(lr={"low": 1e-3, "high": 1e-4}), [], 'the "low" of lr in the sweep\'s "search" must be below'),
        (with_search(lr={"low": 1e-3, "high": 1e-3}), [], "must be below"),
        (with_search(lr={"low": 1e-3}), [], 'must be an object of "low" and "high"'),
        (with_search(lr=1e-3), [], 'must be an object of "low" and "high"'),
        (with_search(lr={**LR, "lug": True}), [], 'must be an object of "low" and "high"'),
        (with_search(lr={**LR, "log": 1}), [], 'the "log" of lr in the sweep\'s "search" must be true or false'),
        (with_search(lr={"low": 0, "high": 1e-3, "log": True}), [], 'must have a "low" above 0'),
        (with_search(lr={**LR, "step": 1e-4}), [], 'and no "step"'),
        (with_search(lr={"low": "a", "high": 1e-3}), [], 'the "low" of lr in the sweep\'s "search" must be a number'),
        (with_search(r_f_steps={"low": 10.5, "high": 40}), [], "must be a whole number, not 10.5"),
        (with_search(r_f_steps={"low": 10, "high": 40, "step": 7}), [], 'lead from "low" to "high" in whole steps'),
        (with_search(r_f_steps={"low": 10, "high": 40, "step": 0}), [], "must be above 0"),
        (with_search(network={"low": 1, "high": 2}), [], 'must be an object of "choices"'),
        (with_search(network={"choices": []}), [], "must be a list with at least one value"),
        (with_search(network={"choices": ["nature", "nature"]}), [], 'have "nature" twice'),
        (with_search(network={"choices": [{}]}), [], "--network must be one of"),
        (with_search(network={"choices": ["nature", "natura"]}), [], 'with network="natura": --network must be one of'),
        (with_search(lr={"low": -1, "high": 1}), [], "with lr=-1: --lr must be a number above 0"),
        (with_search(seed={"low": 1, "high": 9}), [], "the luckiest seed"),
        (with_search(env={"choices": ["PongNoFrameskip-v4"]}), [], "different games cannot be compared"),
        (with_search(op_mode={"choices": ["test"]}), [], "starts and continues its runs by itself"),
        ({**with_search(lr=LR), "grid": {"gamma": [0.9, 0.99]}}, [], 'a sweep with "search" takes no "grid"'),
        ({**with_search(lr=LR), "runs": {"a": {}}}, [], 'a sweep with "search" takes no "runs"'),
        ({**with_search(lr=LR), "trails": 3}, [], 'unknown key "trails"'),
        ({**with_search(lr=LR), "trials": 0}, [], '"trials" must be a whole number of at least 1'),
        ({**with_search(lr=LR), "name": "../up"}, [], '"name" must be a word'),
        ({**with_search(lr=LR), "seeds": [1, 2]}, [], '"seeds" must be a list of one whole number'),
        ({**with_search(lr=LR), "flags": {"lr": 1e-3}}, [], "lr must not be among the sweep's flags: it is searched"),
        ({**with_search(lr=LR), "flags": {"seed": 1}}, [], "seed must not be among the sweep's flags"),
        ({**with_search(lr=LR), "sampler": {"type": "tpo"}}, [], 'the "type" of the sweep\'s "sampler" must be one of'),
        ({**with_search(lr=LR), "sampler": {"kind": "tpe"}}, [], '"sampler" has the unknown key "kind"'),
        ({**with_search(lr=LR), "pruner": {"percentile": 10}}, [], '"pruner" has the unknown key "percentile"'),
        ({**with_search(lr=LR), "pruner": {"type": "percentile", "percentile": 101}}, [], "between 0 and 100"),
        ({**with_search(lr=LR), "pruner": {"warmup_steps": -1}}, [], "must be a whole number of at least 0"),
        ({**with_search(lr=LR), "pruner": "median"}, [], '"pruner" must be an object'),
        (with_search(lr=LR), ["--lr=1e-3"], "--lr is among the ranges"),
        (with_search(lr=LR), ["--op_mode=train"], "--op_mode has no meaning here"),
        (with_search(lr=LR), ["--seed=unset"], "--seed=unset has no meaning here"),
    ],
)
def test_a_wrong_search_is_refused_before_anything_starts(
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


def test_without_optuna_one_sentence_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    path, folder = tmp_path / "sweep.json", tmp_path / "sweep"
    path.write_text(json.dumps(with_search(lr=LR)))
    assert run_sweep([f"--sweep={path}", f"--sweep_dir={folder}"]) == 2
    assert capsys.readouterr().err == (
        'multi_train.py: a sweep with "search" needs the package optuna; run pip install optuna.\n'
    )
    assert not folder.exists()


def test_without_search_optuna_is_not_loaded(tmp_path: Path) -> None:
    code = (
        "import multi_train, pathlib, sys\n"
        f"code = multi_train.main(['--sweep_dir={tmp_path}/sweep', '--seed=1', '--environment_max_steps=10'],"
        f" pathlib.Path('{tmp_path}/nothing.py'))\n"
        "assert code == 1, code\nassert 'optuna' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def test_the_command_line_takes_precedence_and_defaults_follow_the_length_of_the_runs() -> None:
    definition = {**with_search(lr=LR, replay_parameters={"choices": [QUEUE]}), "flags": {"gamma": 0.9}}
    assert is_search(definition)
    given = given_flags(["--gamma=0.8", "--seed=7", "--environment_max_steps=1000"], OPTIONS)
    plan = plan_search(definition, given)
    assert (plan.flags["gamma"], plan.flags["seed"], plan.sampler["seed"], plan.trials) == (0.8, 7, 7, 20)
    assert (plan.pruner["warmup_steps"], plan.pruner["interval_steps"]) == (200, 50)
    assert plan.ranges["replay_parameters"].choices == (json.dumps(QUEUE),)
