"""Checkpoints and replay files that are whole but hold something else than a run writes.

Each is refused in one sentence before anything is started, or else it works.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.learner import Learner
from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import find_checkpoint, write_checkpoint
from run_files.replay_file import read_tensor_file, write_tensor_file
from tests.catch import make_catch
from tests.foreign_contents import DELETED, Place, mutated, places, replacements
from tests.options.replay_entries import queue, ranked, replays, standard
from tests.training.catch_runs import catch_run
from tests.training.resumed_runs import copy_of
from tests.training.some_run import some_run
from training.counters.progress import Progress
from training.make_replays import make_mix
from training.run_setup import RunSetup, set_up_run
from training.train import train
from wrappers.atari import make_atari

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
EVERY_REPLAY = replays(
    queue(0.25),
    standard(0.25, 12),
    ranked("elite", sample_ratio=0.25, capacity=12, lambda_batch_multiplier=2.0),
    ranked("attentive", sample_ratio=0.25, capacity=12, lambda_batch_multiplier=2.0),
)
FLAGS: dict[str, Any] = {
    **{"reproducible": True, "use_lstm": True, "lstm_size": 4, "network": "impala_shallow", "envs_per_worker": 3},
    **{"r_f_steps": 5, "batch_size": 4, "environment_max_steps": 300, "replay_parameters": EVERY_REPLAY},
    **{"feature_out_layer_size": 8, "caching": True, "rmsprop_momentum": 0.5, "frames_stacked": 2},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has saved everything that a checkpoint can hold."""
    return catch_run(tmp_path_factory.mktemp("whole"), **FLAGS)


def set_up(folder: Path) -> RunSetup:
    """As main.py does, up to the start of the first process."""
    parent = find_checkpoint(str(folder))
    own = {"op_mode": "train_w_load", "load_model_url": str(folder), "environment_max_steps": 600}
    return set_up_run(Config.from_flags({**parent.options, **own}), make_catch, parent)


def use(setup: RunSetup) -> None:
    """Load everything, make an update and report it."""
    config, layout, resume = setup.config, setup.layout, setup.resume
    device = setup.machine.device
    learner = Learner(setup.network, layout, config.loss, config.optimizer, resume.schedule_updates, device)
    with closing(make_mix(some_run(Path(), config=config, layout=layout, resume=resume, learner=learner))) as mix:
        progress = Progress(config, layout)
        resume.restore_progress(progress)
        resume.restore(learner, mix)
        if mix.ready():
            batch = mix.mix(learner.updates)
            progress.count_update(batch, learner.update(batch), learner.updates)
        assert learner.is_finite()
        json.dumps(progress.figures())


def part_at(content: Any, place: Place) -> Any:
    for key in place:
        content = content[key]
    return content


def check_sentence(text: str, path: Path, names_file: bool = True) -> None:
    """An option that this version does not know is refused like one on the command line."""
    assert text.endswith(".") and (text.startswith(f"--load_model_url: {path} ") or not names_file)
    assert "\n" not in text and len(text) < 600


@pytest.fixture(scope="module")
def delayed_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, in games that do not wait."""
    delayed = {"interaction": "asynchronous", "action_delay": 2, "skipped_frames": 1, "use_kl_mask": True}
    return catch_run(tmp_path_factory.mktemp("delayed"), **{**FLAGS, **delayed})


@pytest.mark.parametrize(
    ("name", "part"),
    [*(("run", part) for part in ("learner", "progress", "in_flight", "")), ("delayed_run", "in_flight")],
)
def test_any_part_that_is_deleted_or_replaced_is_refused_or_works(
    tmp_path: Path, request: pytest.FixtureRequest, name: str, part: str
) -> None:
    """The part "" stands for those at the top. Options have rules of their own."""
    run: Path = request.getfixturevalue(name)
    saved = find_checkpoint(str(run))
    use(set_up(run))
    changed = copy_of(run, tmp_path)
    path, refused = find_checkpoint(str(changed)).path, 0
    for place in places(saved.content):
        if place[0] != (part or place[0]) or (not part and len(place) > 1):
            continue
        for replacement in replacements(part_at(saved.content, place)):
            torch.save(mutated(saved.content, place, replacement), path)
            try:
                setup = set_up(changed)
            except UsageError as error:
                refused += 1
                check_sentence(str(error), path, names_file=place[0] not in ("options", "action_count"))
            else:
                use(setup)
    assert refused > 30
    assert [folder.name for folder in tmp_path.iterdir()] == ["parent"], "no run has been started"


def _writable(value: Any) -> Any:
    """A content that was read, as it can be written."""
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_writable(item) for item in value]
    return bytes(value) if isinstance(value, memoryview) else value


@pytest.mark.parametrize("compressed", [False, True])
def test_replays_with_foreign_contents_are_left_out_or_work(tmp_path: Path, run: Path, compressed: bool) -> None:
    if compressed:
        run = catch_run(tmp_path / "first", **FLAGS, use_replay_compression=True)
    saved = _writable(read_tensor_file(find_checkpoint(str(run)).replay_path))
    changed = copy_of(run, tmp_path)
    path, left_out = find_checkpoint(str(changed)).replay_path, 0
    for place in places(saved):
        if compressed and "blobs" not in place:
            continue  # the same as without compression
        for replacement in replacements(part_at(saved, place)):
            try:
                write_tensor_file(path, mutated(saved, place, replacement))
            except (TypeError, OverflowError, ValueError):
                continue  # not a value that the file can hold
            setup = set_up(changed)
            notes = [note for note in setup.resume.notes() if "replays start empty" in note]
            left_out += len(notes)
            assert all(("\n" not in note and str(path) in note) or "another layout" in note for note in notes)
            use(setup)
    assert left_out > 10


@pytest.fixture(scope="module")
def impact_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a target network and a circular buffer."""
    return catch_run(tmp_path_factory.mktemp("impact"), **FLAGS, loss="impact")


def test_a_circular_buffer_with_foreign_contents_is_left_out_or_works(tmp_path: Path, impact_run: Path) -> None:
    saved = _writable(read_tensor_file(find_checkpoint(str(impact_run)).replay_path))
    changed = copy_of(impact_run, tmp_path)
    path, left_out = find_checkpoint(str(changed)).replay_path, 0
    buffer: Place = ("mix", "replays", 0)
    for place in places(saved):
        if place[:3] != buffer:
            continue
        for replacement in replacements(part_at(saved, place)):
            try:
                write_tensor_file(path, mutated(saved, place, replacement))
            except (TypeError, OverflowError, ValueError):
                continue  # not a value that the file can hold
            setup = set_up(changed)
            left_out += any("replays start empty" in note for note in setup.resume.notes())
            use(setup)
    assert left_out > 10


@pytest.mark.parametrize(
    ("target", "wanted"),
    [
        ({}, r"learner\.target\.background is missing"),
        ([1.0], r"learner\.target must be a table, not"),
        ({"background": torch.zeros(1)}, r"learner\.target\.background must be float32 numbers of the shape"),
    ],
    ids=["empty", "no table", "another network"],
)
def test_a_target_of_another_network_is_refused(tmp_path: Path, impact_run: Path, target: Any, wanted: str) -> None:
    changed = copy_of(impact_run, tmp_path)
    saved = find_checkpoint(str(changed))
    use(set_up(changed))
    write_checkpoint(saved.path, mutated(saved.content, ("learner", "target"), target))
    with pytest.raises(UsageError, match=wanted) as caught:
        set_up(changed)
    check_sentence(str(caught.value), saved.path)


def _without(place: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda content: mutated(content, tuple(place.split(".")), DELETED)


def _with(place: str, value: Any) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda content: mutated(content, tuple(place.split(".")), value)


def _weights_are_nan(content: dict[str, Any]) -> dict[str, Any]:
    bias = content["learner"]["network"]["value_head.bias"]
    return mutated(content, ("learner", "network", "value_head.bias"), bias * float("nan"))


FOREIGN: dict[str, tuple[Callable[[dict[str, Any]], dict[str, Any]], str]] = {
    "an empty learner": (_with("learner", {}), r"learner\.updates is missing"),
    "no options": (_with("options", {}), r"options\.env is missing"),
    "no game": (_without("options.env"), r"options\.env is missing"),
    "another network": (_with("options.network", "conv3"), r"learner\.network\.\S+ must be float32 numbers of"),
    "no network": (_with("learner.network", {}), r"learner\.network\.background is missing"),
    "no counters": (_with("progress", {}), r"progress\.agent_steps is missing"),
    "no unrolls in flight": (_without("in_flight"), "in_flight is missing"),
    "another optimizer's state": (_with("learner.optimizer.state", {0: {}}), r"learner\.optimizer\.state\.0\.step is"),
    "counters that differ": (_with("progress.updates", 1), r"progress\.updates must be"),
    "weights that are NaN": (_weights_are_nan, r"value_head\.bias must be float32 .*, all finite, not .* NaN"),
    "an option of another type": (_with("options.lr", "fast"), r'options\.lr must be a number above 0 .*, not "fast"'),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_the_sentence_names_the_part_and_what_would_be_right(tmp_path: Path, run: Path, name: str) -> None:
    changed = copy_of(run, tmp_path)
    saved = find_checkpoint(str(changed))
    change, wanted = FOREIGN[name]
    write_checkpoint(saved.path, change(saved.content))
    with pytest.raises(UsageError, match=wanted) as caught:
        set_up(changed)
    check_sentence(str(caught.value), saved.path)
    assert "has contents that no run writes" in str(caught.value)


def test_a_test_refuses_foreign_weights(tmp_path: Path, run: Path) -> None:
    changed = copy_of(run, tmp_path)
    saved = find_checkpoint(str(changed))
    torch.save(_weights_are_nan(saved.content), saved.path)
    parent = find_checkpoint(str(changed))
    flags = {**parent.played_options, "op_mode": "test", "load_model_url": str(changed), "console": "off"}
    with pytest.raises(UsageError, match=r"value_head\.bias must be float32 numbers"):
        score_checkpoint(Config.from_flags(flags), make_catch, parent)


COMMANDS = {
    "resume": ["main.py", "--op_mode=train_w_load", "--environment_max_steps=9999", "--load_model_url={run}"],
    "test": ["main.py", "--op_mode=test", "--load_model_url={run}"],
    "films": ["main.py", "--op_mode=test", "--render", "--load_model_url={run}"],
    "export": ["-m", "evaluation.export", "{run}"],
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", ["an empty learner", "weights that are NaN"])
def test_each_command_refuses_a_foreign_checkpoint(tmp_path: Path, pong_run: Path, command: str, name: str) -> None:
    changed = Path(shutil.copytree(pong_run, tmp_path / "run"))
    saved = find_checkpoint(str(changed))
    torch.save(FOREIGN[name][0](saved.content), saved.path)
    words = [word.format(run=changed) for word in COMMANDS[command]]
    files = sorted(changed.rglob("*"))
    ended = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stdout == "" and ended.stderr.count("\n") == 1
    assert "has contents that no run writes: learner." in ended.stderr
    assert sorted(changed.rglob("*")) == files


@pytest.fixture(scope="module")
def pong_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    flags = {"frames_stacked": 4, "network": "impala_shallow", "environment_max_steps": 160, "envs_per_worker": 2}
    folder = tmp_path_factory.mktemp("pong")
    return train(
        Config.from_flags({"results_dir": str(folder), "console": "off", "worker_count": 1, **flags}), make_atari
    )
