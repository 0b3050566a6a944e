"""The map of what replays hold, read from the replays that a real run saved."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboard.replay_map import map_replays, principal_components
from dashboard.results import PageError
from run_files.checkpoint import find_checkpoint, write_checkpoint
from run_files.run_folder import CHECKPOINTS
from tests.training.catch_runs import catch_run

REPLAYS = (
    '[{"type": "queue", "capacity": 3, "sample_ratio": 0.5},'
    ' {"type": "standard", "capacity": 20, "sample_ratio": 0.125},'
    ' {"type": "attentive", "capacity": 15, "sample_ratio": 0.125, "lambda_batch_multiplier": 3},'
    ' {"type": "elite", "capacity": 20, "sample_ratio": 0.25, "lambda_batch_multiplier": 3,'
    ' "alfa_annealing_factor": 1000.0}]'
)


def test_the_components_are_the_directions_of_the_largest_variance() -> None:
    rng = np.random.default_rng(0)
    spread = np.array([5.0, 2.0, 0.1, 0.1])
    rotation, _ = np.linalg.qr(rng.normal(size=(4, 4)))
    features = (rng.normal(size=(5000, 4)) * spread) @ rotation + 3
    points, (first, second) = principal_components(features.astype(np.float32))
    assert points.std(axis=0) == pytest.approx([5, 2], rel=0.05)
    assert (first, second) == pytest.approx((25 / 29.02, 4 / 29.02), rel=0.05)
    expected = (features - features.mean(axis=0)) @ rotation.T
    assert abs(np.corrcoef(points[:, 0], expected[:, 0])[0, 1]) > 0.999


@pytest.fixture(
    scope="module",
    params=[{}, {"use_replay_compression": True}],
    ids=["raw", "compressed"],
)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoints of a run that saved its replays."""
    folder = catch_run(
        tmp_path_factory.mktemp("results"), replay_parameters=REPLAYS, environment_max_steps=1500, save_replay=True,
        frame_scale_resolution="36,36", **request.param,
    )  # fmt: skip
    return folder / CHECKPOINTS


@pytest.mark.slow
def test_the_map_shows_each_unroll_of_the_ranking_replays(run: Path) -> None:
    shown = map_replays(run)
    assert {label: len(columns["x"]) for label, columns in shown.replays.items()} == {
        "attentive (replay 3)": 15, "elite (replay 4)": 20,
    }  # fmt: skip
    checkpoint = find_checkpoint(str(run))
    assert shown.updates == checkpoint.updates
    attentive, elite = shown.replays.values()
    columns: dict[str, list[Any]] = {name: attentive[name] + elite[name] for name in elite}
    assert all(0 <= age <= shown.updates for age in columns["age in updates"])
    assert len(set(columns["age in updates"])) > 2
    assert max(columns["times drawn"]) > 0 and any(columns["distance"])
    assert max(map(abs, columns["sum of rewards"])) <= 2, "two games end in ten steps"
    x, y = np.var(columns["x"]), np.var(columns["y"])
    assert x >= y > 0
    assert x / y == pytest.approx(shown.explained[0] / shown.explained[1])


@pytest.mark.slow
def test_the_replays_of_the_first_of_several_learners_have_a_map(run: Path, tmp_path: Path) -> None:
    checkpoint = find_checkpoint(str(run))
    options = checkpoint.content["options"]
    replays = [{**replay, "capacity": 2 * replay["capacity"]} for replay in json.loads(REPLAYS)]
    batch, workers = (2 * options[name] for name in ("batch_size", "worker_count"))
    whole = {
        "learners": 2, "batch_size": batch, "worker_count": workers, "replay_parameters": json.dumps(replays),
    }  # fmt: skip
    write_checkpoint(tmp_path / checkpoint.path.name, {**checkpoint.content, "options": {**options, **whole}})
    shutil.copy(checkpoint.replay_path, tmp_path)
    assert len(map_replays(tmp_path).replays["elite (replay 4)"]["x"]) == 20


@pytest.mark.slow
def test_what_has_no_map_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(PageError, match=r"^There is no map: this run has not saved its replays\..*elite ones\.$"):
        map_replays(tmp_path)
    (saved,) = run.glob("replays_*.bin")
    (tmp_path / saved.name).write_bytes(saved.read_bytes()[:-500])
    with pytest.raises(PageError, match=r"checkpoint_\d+\.pt cannot be read \(No such file or directory\)\.$"):
        map_replays(tmp_path)
    newest = find_checkpoint(str(run)).path
    shutil.copy(newest, tmp_path / newest.name)
    for content in (saved.read_bytes()[:-500], b"x"):
        (tmp_path / saved.name).write_bytes(content)
        with pytest.raises(PageError, match=rf"^{saved.name} cannot be read: .*\.$"):
            map_replays(tmp_path)
