"""Exported policies say what the network says; the example in the docs plays a game."""

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from agents.network import ActorCritic
from evaluation import export
from evaluation.exported_policy import ExportedPolicy, exported
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import find_checkpoint, write_checkpoint

pytestmark = pytest.mark.timeout(120)

ROOT = Path(__file__).resolve().parents[2]
SMALL: dict[str, Any] = {"network": "impala_shallow", "env": "PongNoFrameskip-v4", "max_game_frames": 400}


def write_agent(folder: Path, **options: Any) -> Path:
    """A checkpoint of an agent that has learned nothing, but has opinions."""
    torch.manual_seed(0)
    config = Config.from_flags({**SMALL, **options})
    lstm_size = config.network.lstm_size if config.network.use_lstm else 0
    network = ActorCritic("impala_shallow", (4, 84, 84), 6, lstm_size)
    torch.nn.init.normal_(network.policy_head.weight)
    torch.nn.init.uniform_(network.background, 0, 255)
    content = {
        "options": config.flags(),
        "action_count": 6,
        "learner": {"network": network.state_dict()},
        "progress": {"agent_steps": 1, "updates": 1},
    }
    path = folder / "checkpoints" / "checkpoint_0000000001.pt"
    path.parent.mkdir(parents=True)
    write_checkpoint(path, content)
    return folder


def test_the_example_of_the_docs_plays_a_game(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    export.main([str(write_agent(tmp_path / "run"))])
    lines = capsys.readouterr().out.splitlines()
    assert [re.sub(r".*/export/(\S+): .*", r"\1", line) for line in lines] == ["policy.onnx", "policy.pt"]
    assert all("differs from the network by" in line for line in lines)

    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "export.md").read_text(encoding="utf-8"), re.DOTALL)
    block = block.replace("results/<run>", str(tmp_path / "run"))
    monkeypatch.syspath_prepend(str(ROOT))
    exec(compile(block, "docs/export.md", "exec"), {})
    assert re.fullmatch(r"return -?\d+\n", capsys.readouterr().out)


def test_a_policy_with_memory_is_exported_to_another_folder(tmp_path: Path) -> None:
    checkpoint = write_agent(tmp_path / "run", use_lstm=True, lstm_size=16) / "checkpoints" / "checkpoint_0000000001.pt"
    export.main([str(checkpoint), f"--output={tmp_path / 'there'}"])
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"policy.onnx", "policy.pt"}


def test_a_file_that_computes_something_else_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def other(network: ActorCritic) -> ExportedPolicy:
        policy = exported(network)
        policy.value_head.bias.data.add_(1e-4)
        return policy

    # The reference comes from the same parameters, so it has to be taken before they change.
    taken: list[Any] = []
    real_reference = export.reference
    monkeypatch.setattr(export, "reference", lambda network, inputs: taken[0])
    monkeypatch.setattr(export, "as_onnx", lambda policy, inputs, options: export.as_torchscript(policy, inputs))
    monkeypatch.setattr(export, "onnx_function", lambda content, names: export.torchscript_function(content))
    monkeypatch.setattr(export, "exported", other)
    checkpoint = find_checkpoint(str(write_agent(tmp_path / "run")))
    config = Config.from_flags(checkpoint.options)
    network = export.load_network(checkpoint, config)
    taken.append(real_reference(network, export.check_inputs(config, network)))
    with pytest.raises(RuntimeError, match="nothing is written"):
        export.export(checkpoint, tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("lstm_size", [0, 16])
def test_the_written_out_step_is_the_networks_own(lstm_size: int) -> None:
    torch.manual_seed(1)
    network = ActorCritic("impala_shallow", (4, 84, 84), 6, lstm_size)
    torch.nn.init.uniform_(network.background, 0, 255)
    count = 5
    inputs: tuple[torch.Tensor, ...] = (torch.randint(0, 256, (count, 4, 84, 84), dtype=torch.uint8),)
    if lstm_size:
        for parameter in network.lstm.parameters() if network.lstm else ():
            torch.nn.init.normal_(parameter, std=0.1)
        inputs += (torch.tensor([-1, 0, 5, 2, 3]), torch.randn(count), torch.randn(count, 2, lstm_size))
    wanted = export.reference(network, inputs)
    policy = exported(network)
    found = policy(*inputs)
    assert len(found) == len(policy.outputs) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_mistakes_are_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=rf"^{tmp_path}/nothing does not exist; .* would be right\.$"):
        export.main([f"{tmp_path}/nothing"])
    (tmp_path / "cut.pt").write_bytes(b"PK")
    with pytest.raises(UsageError, match=rf"^{tmp_path}/cut\.pt is cut off"):
        export.main([f"{tmp_path}/cut.pt"])
    monkeypatch.setattr(export, "PACKAGES", ("onnx", "no_such_a", "no_such_b"))
    with pytest.raises(UsageError, match=r"^The export needs the packages no_such_a, no_such_b; pip install "):
        export.main([str(tmp_path)])
