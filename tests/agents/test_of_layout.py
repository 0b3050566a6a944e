from dataclasses import replace

import pytest
import torch

from agents.distributions import Categorical, DiagonalGaussian, PolicyDistribution, distribution_of, one_choice
from replay.unroll_layout import UnrollLayout

DISCRETE = UnrollLayout(unroll_length=3, frame_stack=2, frame_shape=(1, 4, 4), action_sizes=(5,))
LAYOUTS = {
    "discrete": (DISCRETE, one_choice(5)),
    "product": (replace(DISCRETE, action_kind="product", action_sizes=(2, 3)), Categorical((2, 3))),
    "gaussian": (
        replace(DISCRETE, action_kind="gaussian", action_sizes=(0, 0)),
        DiagonalGaussian(2),
    ),
}


@pytest.mark.parametrize("kind", LAYOUTS)
def test_the_distribution_fits_the_fields_of_an_unroll(kind: str) -> None:
    layout, expected = LAYOUTS[kind]
    policy: PolicyDistribution = distribution_of(layout)
    assert policy == expected
    assert policy.parameter_count == layout.action_count
    parameters = torch.randn(layout.unroll_length, policy.parameter_count, generator=torch.Generator().manual_seed(0))
    uniforms = torch.full((layout.unroll_length, *layout.action_shape), 0.3)
    field = layout.tensors(torch.zeros(1, layout.nbytes, dtype=torch.uint8))["actions"][0]
    for actions in (policy.sample(parameters, uniforms), policy.most_likely(parameters)):
        assert actions.shape == field.shape
        field.copy_(actions)
        assert torch.equal(field.double(), actions.double()), "the field holds the actions exactly"
    assert policy.log_prob(parameters, field).shape == policy.entropy(parameters).shape == (layout.unroll_length,)
    assert policy.encode(field).shape == policy.as_bars(parameters).shape == (layout.unroll_length, policy.encoded_size)
