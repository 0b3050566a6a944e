"""The layers of each torso, and the pictures that it accepts."""

from typing import Any

import pytest
import torch
from torch import nn

from agents.torsos.make_torso import Observed, make_torso
from agents.torsos.pictures import ResidualSection, initialise_torso
from options.rules import UsageError
from tests.agents.networks import ACTIONS, FEATURES, picture_network


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize(
    ("name", "convolutions", "flat"),
    [
        ("nature", [(32, 8, 4), (64, 4, 2), (64, 3, 1)], 7 * 7 * 64),
        ("nature_norm", [(32, 8, 4), (64, 4, 2), (64, 3, 1)], 7 * 7 * 64),
        ("nature_small", [(16, 8, 4), (32, 4, 2), (64, 3, 2)], 4 * 4 * 64),
        ("impala_shallow", [(16, 8, 4), (32, 4, 2)], 9 * 9 * 32),
        ("conv3", [(64, 3, 3), (64, 3, 2), (128, 3, 2)], 6 * 6 * 128),
        ("impala_deep", [(16, 3, 1)] * 5 + [(32, 3, 1)] * 10, 11 * 11 * 32),
    ],
)
def test_the_layers_are_those_of_the_documents(
    name: str, convolutions: list[tuple[int, int, int]], flat: int, width: int
) -> None:
    """Layers are recorded in the order of a forward pass, not taken from the list of modules."""
    torso, size = make_torso(name, Observed((4, 84, 84), 0), width)
    passed: list[Any] = []
    for module in torso.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(lambda layer, _input, _output: passed.append(layer))
    assert torso(torch.zeros(1, 4, 84, 84)).shape == (1, size)
    *layers, hidden = passed
    assert all(isinstance(layer, nn.Conv2d) for layer in layers)
    seen = [(layer.out_channels, layer.kernel_size, layer.stride) for layer in layers]
    assert seen == [(width * channels, (kernel,) * 2, (stride,) * 2) for channels, kernel, stride in convolutions]
    assert (hidden.in_features, hidden.out_features) == (width * flat, width * FEATURES[name])


def test_a_normalised_network_does_not_depend_on_the_size_of_what_it_sees() -> None:
    """With zero biases, pictures that are twice as bright give the same features."""
    torso, _ = make_torso("nature_norm", Observed((4, 84, 84), 0))
    initialise_torso(torso)
    pictures = torch.rand(3, 4, 84, 84)
    torch.testing.assert_close(torso(2 * pictures), torso(pictures), rtol=1e-3, atol=1e-3)
    assert float(torso(pictures).detach().std()) > 0.1


def test_the_deep_network_adds_each_block_to_its_input() -> None:
    """With blocks whose output is 0, a section is only its convolution and its pooling."""
    torso: Any = make_torso("impala_deep", Observed((4, 36, 36), 0))[0]
    sections = list(torso[0])[:3]
    for section in sections:
        for block in section.blocks:
            nn.init.zeros_(block[-1].weight)
            nn.init.zeros_(block[-1].bias)
    pictures = torch.rand(2, 4, 36, 36)
    expected = pictures
    for section in sections:
        convolved = nn.functional.conv2d(expected, section.convolution.weight, section.convolution.bias, padding=1)
        expected = nn.functional.max_pool2d(convolved, 3, 2, 1)
    torch.testing.assert_close(torso[0](pictures), expected.relu())


def assert_orthogonal(weight: torch.Tensor, gain: float) -> None:
    """The rows (or the columns, if they are fewer) are orthogonal and have the length `gain`."""
    matrix = weight.detach().double().flatten(1)
    gram = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    torch.testing.assert_close(gram, gain**2 * torch.eye(len(gram), dtype=torch.float64), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", FEATURES)
def test_initial_weights_are_orthogonal_and_biases_zero(name: str) -> None:
    network = picture_network(name, (1, 36, 36), ACTIONS, lstm_size=6)
    layers = [module for module in network.torso.modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    sections = [module for module in network.torso.modules() if isinstance(module, ResidualSection)]
    small = {block.get_submodule("3") for section in sections for block in section.blocks}
    assert len(small) == (6 if name == "impala_deep" else 0)
    for layer in layers:
        assert_orthogonal(layer.weight, 0.2 if layer in small else 2**0.5)
    assert_orthogonal(network.policy_head.weight, 0.01)
    assert_orthogonal(network.value_head.weight, 1.0)
    assert network.lstm is not None
    for weights in network.lstm.all_weights[0][:2]:
        for gate in weights.chunk(4):
            assert_orthogonal(gate, 1.0)
    biases = {name: parameter for name, parameter in network.named_parameters() if "bias" in name}
    normalised = [module for module in network.torso.modules() if isinstance(module, nn.GroupNorm | nn.LayerNorm)]
    assert len(biases) == len(layers) + len(normalised) + 4
    assert not any(parameter.any() for parameter in biases.values())


@pytest.mark.parametrize(
    ("name", "smallest"), [("nature", 36), ("nature_small", 36), ("impala_shallow", 20), ("conv3", 21)]
)
def test_too_small_pictures_are_refused(name: str, smallest: int) -> None:
    make_torso(name, Observed((1, smallest, smallest), 0))
    for height, width in ((smallest - 1, 84), (84, smallest - 1), (1, 1)):
        with pytest.raises(UsageError, match=f"--frame_scale_resolution={height},{width} is too small .*{name}"):
            make_torso(name, Observed((1, height, width), 0))
