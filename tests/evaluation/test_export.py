"""Exported policies compute the same as the network; the example in the docs plays a game."""

import copy
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.network import ActorCritic
from agents.spaces import described_spaces, make_unroll_layout
from evaluation import export
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import find_checkpoint, write_checkpoint
from tests.run_files.some_checkpoint import some_content, some_learner
from wrappers.make_environment import make_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"network": "impala_shallow", "env": "PongNoFrameskip-v4", "max_game_frames": 400}


def write_agent(folder: Path, **options: Any) -> Path:
    """A checkpoint of an untrained agent whose policy is not uniform."""
    torch.manual_seed(0)
    config = Config.from_flags({**SMALL, **options})
    layout = make_unroll_layout(config, make_environment)
    network = ActorCritic(config.network, layout, torch.float32)
    torch.nn.init.normal_(network.policy_head.weight)
    torch.nn.init.uniform_(network.background, 0, 255)
    learner = some_learner(network.state_dict(), 1)
    parts = {"options": config.flags(), "spaces": described_spaces(layout)}
    content = some_content(1, learner=learner, **parts)
    path = folder / "checkpoints" / "checkpoint_0000000001.pt"
    path.parent.mkdir(parents=True)
    write_checkpoint(path, content)
    return folder


def test_the_example_of_the_docs_plays_a_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export.main([str(write_agent(tmp_path / "run", interaction="realtime"))])
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r".*/export/(\S+): .*", r"\1", line) for line in lines] == ["policy.onnx"]
    assert all("differs from the network by" in line for line in lines)

    play_the_example(tmp_path / "run", monkeypatch)
    assert re.fullmatch(r"return -?\d+\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("env", "network"),
    [("Pendulum-v1", "separate_mlp"), ("FrozenLake-v1", "auto")],
)
def test_the_example_plays_other_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], env: str, network: str
) -> None:
    config = Config.from_flags({"env": env, "network": network})
    layout = make_unroll_layout(config, make_environment)
    learner = some_learner(ActorCritic(config.network, layout, torch.float32).state_dict(), 1)
    parts = {"options": config.flags(), "spaces": described_spaces(layout)}
    path = tmp_path / "run" / "checkpoints" / "checkpoint_0000000001.pt"
    path.parent.mkdir(parents=True)
    write_checkpoint(path, some_content(1, learner=learner, **parts))
    export.main([str(tmp_path / "run")])
    capsys.readouterr()
    play_the_example(tmp_path / "run", monkeypatch)
    assert re.fullmatch(r"return -?[\d.]+\n", capsys.readouterr().out)


def play_the_example(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "export.md").read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.syspath_prepend(str(ROOT))
    exec(compile(block.replace("results/<run>", str(run)), "docs/export.md", "exec"), {})


def test_an_lstm_policy_is_exported_to_another_folder(tmp_path: Path) -> None:
    checkpoint = write_agent(tmp_path / "run", use_lstm=True, lstm_size=16) / "checkpoints" / "checkpoint_0000000001.pt"
    export.main([str(checkpoint), f"--output={tmp_path / 'there'}"])
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"policy.onnx"}


def test_a_policy_that_differs_from_the_network_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_onnx = export.as_onnx

    def with_another_bias(policy: export.ExportedPolicy, *others: Any) -> torch.onnx.ONNXProgram:
        network = copy.deepcopy(policy)
        network.network.value_head.bias.data.add_(1e-4)
        return as_onnx(network, *others)

    monkeypatch.setattr(export, "as_onnx", with_another_bias)
    checkpoint = find_checkpoint(str(write_agent(tmp_path / "run", network="nature_small")))
    with pytest.raises(
        UsageError, match=r"policy\.onnx would not compute what the network computes: .* nothing is written"
    ):
        export.export(checkpoint, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(("largest", "unit"), [(1000.0, 1000.0), (0.75, 1.0)])
def test_the_largest_difference_is_relative_to_the_largest_number_and_looks_at_a_single_row(
    largest: float, unit: float
) -> None:
    inputs = (torch.tensor([0.0, 0.5, largest]),)

    def difference(compute: Callable[[torch.Tensor], torch.Tensor]) -> float:
        return export.largest_difference(lambda tensor: (compute(tensor),), inputs, inputs)

    assert difference(lambda x: x) == 0
    assert difference(lambda x: x + 0.25) == pytest.approx(0.25 / unit)
    assert difference(lambda x: x * 1.5) == pytest.approx(0.5 * largest / unit)
    assert difference(lambda x: x + (1.0 if len(x) == 1 else 0.0)) == pytest.approx(1.0 / unit)
    assert math.isnan(difference(lambda x: x * math.nan))


def test_errors_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=rf"^{tmp_path}/nothing does not exist; .* would be right\.$"):
        export.main([f"{tmp_path}/nothing"])
    (tmp_path / "cut.pt").write_bytes(b"PK")
    with pytest.raises(UsageError, match=rf"^{tmp_path}/cut\.pt is cut off"):
        export.main([f"{tmp_path}/cut.pt"])
    monkeypatch.setattr(export, "PACKAGES", ("onnx", "no_such_a", "no_such_b"))
    with pytest.raises(
        UsageError, match=r"^The export needs onnx, no_such_a, no_such_b; run pip install no_such_a no_such_b\.$"
    ):
        export.main([str(tmp_path)])
