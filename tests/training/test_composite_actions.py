"""A run of an environment whose actions are a Dict of choices, bits and real numbers."""

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest

from evaluation import export
from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config
from run_files.checkpoint import find_checkpoint
from tests.composite import COMPOSITE
from tests.exploring import exploring
from tests.training.catch_runs import CATCH, reports, resume_run
from tests.training.test_any_environment import EVERY_REPLAY
from training.train import train
from wrappers.make_environment import make_environment


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags",
    [
        {"use_lstm": True, "lstm_size": 8, "exploring_share": 0.5, "use_kl_mask": True},
        {"loss": "impact", "inference": "learner"},
    ],
    ids=["replays", "impact"],
)
def test_a_run_with_composite_actions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, Any]) -> None:
    """The environment refuses every action that is not of its space."""
    make = exploring(make_environment, monkeypatch)
    given = {**CATCH, "env": COMPOSITE, "worker_restart_budget": 0, "results_dir": str(tmp_path), **flags}
    if "use_kl_mask" in flags:
        given["replay_parameters"] = EVERY_REPLAY
    folder = train(Config.from_flags({**given, "environment_max_steps": 400}), make)
    folder = resume_run(folder, make, environment_max_steps=800)
    last = reports(folder)[-1]
    assert last["agent_steps"] == 800 and last["worker_restarts"] == 0 and last["episodes"] > 30
    assert ("exploring_share" not in flags) or last["held_share"] > 0
    parent = find_checkpoint(str(folder))
    test = {**parent.played_options, "op_mode": "test", "load_model_url": str(folder), "test_episode_count": 2}
    for policy in ("sampled", "greedy"):
        score_checkpoint(Config.from_flags({**test, "test_policy": policy}), make_environment, parent)
    if "use_lstm" not in flags:
        return
    assert export.export(parent, tmp_path / "export")[1] < 1e-5
    metadata = onnxruntime.InferenceSession(tmp_path / "export" / "policy.onnx").get_modelmeta().custom_metadata_map
    names = json.loads(metadata["logits"])
    assert names[:5] == ["arm.0.grip[0]: 0", "arm.0.grip[0]: 1", "arm.0.grip[1]: 0", "arm.0.grip[1]: 1", "move: 0"]
    assert names[-2:] == ["arm.0.speed: mean", "arm.0.speed: log deviation"] and len(names) == 9
