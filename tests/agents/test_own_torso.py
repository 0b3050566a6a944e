"""Networks of a user's own: what the function gets, what it may return, and what is said if it fails."""

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from agents.network import ActorCritic
from agents.optimizer import ScheduledOptimizer
from agents.torsos.make_torso import Observed, make_torso, observation_space
from agents.torsos.pictures import channels_last
from evaluation import export
from option_flags import NetworkOptions, OptimizerOptions
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from tests.agents.every_layout import PARTS, PICTURES

PICTURE, VECTOR, BOTH = Observed((4, 10, 12), 0), Observed((0, 0, 0), 7), Observed((4, 10, 12), 7)
WriteModule = Callable[[str], str]

TORSO = """
import torch
from gymnasium.spaces import Box, Dict
from torch import nn

class Torso(nn.Module):
    def __init__(self, space):
        super().__init__()
        self.parts = list(space.values()) if isinstance(space, Dict) else [space]
        self.layers = nn.ModuleList(nn.Linear(self.size(part), 8) for part in self.parts)
        nn.init.constant_(self.layers[0].bias, 0.25)

    @staticmethod
    def size(box):
        size = 1
        for n in box.shape:
            size *= n
        return size

    def forward(self, seen):
        seen = seen if isinstance(seen, tuple) else (seen,)
        return sum(layer(part.flatten(1)) for layer, part in zip(self.layers, seen)).tanh()

def make_torso(space):
    return Torso(space)
"""


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WriteModule]:
    """Writes a module to the current folder and returns the value of --network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(tmp_path))])

    def write(code: str) -> str:
        (tmp_path / "some_network.py").write_text(textwrap.dedent(code))
        sys.modules.pop("some_network", None)
        importlib.invalidate_caches()
        return "some_network:make_torso"

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield write
    sys.modules.pop("some_network", None)


def test_the_space_describes_what_the_torso_gets() -> None:
    picture, vector, both = (observation_space(observed) for observed in (PICTURE, VECTOR, BOTH))
    assert picture == Box(0, 255, (4, 10, 12), np.uint8)
    assert vector == Box(-10, 10, (7,), np.float32)
    assert both == Dict(picture=picture, vector=vector)


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize(("lstm_size", "dtype"), [(0, torch.float32), (5, torch.float32), (0, torch.bfloat16)])
def test_it_works_like_any_other_network(
    write_module: WriteModule, parts: str, lstm_size: int, dtype: torch.dtype
) -> None:
    layout = replace(PICTURES, **PARTS[parts], lstm_size=lstm_size)
    network = ActorCritic(NetworkOptions(network=write_module(TORSO)), layout, dtype)
    bias = network.torso.get_parameter("layers.0.bias")
    assert bool((bias == 0.25).all()), "its own initialisation is kept"
    inputs = export.random_inputs(network, layout)
    count = export.COMPARED
    expected = export.ExportedPolicy(network, list(inputs))(*inputs.values())
    assert expected[0].shape == (count, 5) and expected[0].dtype == torch.float32
    sum(part.square().sum() for part in expected[:2]).backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.torso.parameters())


def test_it_may_have_three_dimensional_convolutions(write_module: WriteModule) -> None:
    code = """
    import torch
    from torch import nn

    class Torso(nn.Module):
        def __init__(self):
            super().__init__()
            self.over_time, self.flat = nn.Conv3d(1, 3, (2, 5, 5)), nn.Conv2d(3, 4, 3)

        def forward(self, pictures):
            return self.flat(self.over_time(pictures[:, None]).flatten(2, 3)).flatten(1)

    def make_torso(space):
        return Torso()
    """
    layout = replace(PICTURES, **PARTS["picture"])
    network = channels_last(ActorCritic(NetworkOptions(network=write_module(code)), layout, torch.float32))
    assert network.torso.get_parameter("flat.weight").is_contiguous(memory_format=torch.channels_last)
    assert network.torso.get_parameter("over_time.weight").is_contiguous()


def test_a_picture_arrives_scaled_and_a_vector_beside_it(write_module: WriteModule) -> None:
    layout = UnrollLayout(1, 2, frame_shape=(1, 12, 12), action_sizes=(4,), vector_size=3)
    network = ActorCritic(NetworkOptions(network=write_module(TORSO)), layout)
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    network.torso.register_forward_pre_hook(lambda _torso, args: seen.append(args[0]))
    network.features(torch.full((5, 2, 12, 12), 128, dtype=torch.uint8), torch.full((5, 3), 0.75))
    picture, vector = seen[0]
    assert picture.shape == (5, 2, 12, 12) and (picture == 0.5).all()
    assert vector.shape == (5, 3) and (vector == 0.75).all()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("make_torso = 3", r"the module some_network has no function make_torso\.$"),
        ("def make_torso(space): return 3", r"must return a torch.nn.Module, not int\.$"),
        ("def make_torso(space): return space.no_such", r"failed with AttributeError: .*no_such"),
        ("def make_torso(): pass", r"failed with TypeError: "),
        ("import no_such_module_at_all", r"importing some_network failed with ModuleNotFoundError"),
        (
            "from torch import nn\ndef make_torso(space): return nn.Identity()",
            r"features \[N, F\].*not \[3, 4, 10, 12\]",
        ),
        ("from torch import nn\ndef make_torso(space): return nn.Linear(5, 5)", "its module failed .* RuntimeError"),
        (
            "from torch import nn\nclass T(nn.Module):\n    def forward(self, x): return x.flatten(1).long()\n"
            "def make_torso(space): return T()",
            r"must return floating-point numbers, not torch\.int64",
        ),
        (
            "from torch import nn\nclass T(nn.Module):\n    def forward(self, x): return x, x\n"
            "def make_torso(space): return T()",
            "must return a tensor, not tuple",
        ),
        (
            "from torch import nn\nclass T(nn.Module):\n    def forward(self, x): return x.sum((0, 2, 3))[None]\n"
            "def make_torso(space): return T()",
            r"not \[1, 4\]",
        ),
        (
            "from torch import nn\nclass T(nn.Module):\n    def forward(self, x): return x.flatten(1) / 0\n"
            "def make_torso(space): return T()",
            r"must return finite numbers",
        ),
        (
            "import torch\nfrom torch import nn\nclass T(nn.Module):\n    def forward(self, x):\n"
            "        if torch.is_grad_enabled(): raise ValueError('in an update')\n        return x.flatten(1)\n"
            "def make_torso(space): return T()",
            "its module failed .* ValueError: in an update",
        ),
    ],
)
def test_mistakes_end_in_one_sentence(write_module: WriteModule, code: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as raised:
        make_torso(write_module(code), PICTURE)
    assert str(raised.value).startswith("--network=some_network:make_torso") and "\n" not in str(raised.value)


def test_a_module_that_does_not_exist_is_named(write_module: WriteModule) -> None:
    with pytest.raises(UsageError, match="no module no_such_network in the current folder"):
        make_torso("no_such_network:make_torso", PICTURE)


def test_an_exception_keeps_its_traceback(write_module: WriteModule) -> None:
    with pytest.raises(UsageError) as raised:
        make_torso(write_module("def make_torso(space):\n    raise ValueError('this line')"), PICTURE)
    assert "some_network.py" in raised.value.details and "this line" in raised.value.details


WITH_A_REST = """
import torch
from torch import nn

class Torso(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.used, self.unused, self.exact = nn.Linear(size, 8), nn.Linear(8, 8), nn.Linear(8, 8).double()
        self.register_buffer("mask", torch.full((3, 3), -torch.inf))

    def forward(self, vectors):
        return self.exact(self.used(vectors).double())

def make_torso(space):
    return Torso(space.shape[0])
"""


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
def test_a_run_can_save_any_weights_and_infinite_buffers(write_module: WriteModule, optimizer: str) -> None:
    """Without use as in a classifier whose last layer is left out, of double precision, the mask of an attention."""
    layout = replace(PICTURES, **PARTS["vector"])
    network = ActorCritic(NetworkOptions(network=write_module(WITH_A_REST)), layout, torch.float32)
    made = ScheduledOptimizer(network, OptimizerOptions(optimizer=optimizer), 100)
    logits, values = export.ExportedPolicy(network, ["vectors"])(torch.randn(6, layout.vector_size))
    (logits.sum() + values.sum()).backward()
    made.step(0)
    network.load_saved(network.state_dict())
    made.load_state_dict(made.state_dict())
    network.state_dict()["torso.used.bias"].fill_(torch.inf)
    with pytest.raises(ValueError, match=r"torso\.used\.bias has numbers that are NaN or infinite"):
        network.load_saved(network.state_dict())
