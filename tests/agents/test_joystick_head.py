"""The policy head of games with a joystick, whose actions share weights by their movements."""

from dataclasses import replace

import pytest
import torch

from agents.heads import Head, JoystickHead, movements_of
from agents.network import ActorCritic
from option_flags import NetworkOptions
from tests.agents.learners import LAYOUT

PONG = ("NOOP", "FIRE", "RIGHT", "LEFT", "RIGHTFIRE", "LEFTFIRE")
VERTICAL, HORIZONTAL = ("", "UP", "DOWN"), ("", "RIGHT", "LEFT")
ALL = tuple(v + h + fire or "NOOP" for fire in ("", "FIRE") for v in VERTICAL for h in HORIZONTAL)


def network_of(names: tuple[str, ...], factored_actions: bool = True) -> ActorCritic:
    layout = replace(LAYOUT, action_sizes=(len(names),), action_names=names)
    return ActorCritic(NetworkOptions(factored_actions=factored_actions), layout, torch.float32)


def test_the_movements_of_pong() -> None:
    """No action moves up or down, so there is no such movement."""
    assert movements_of(PONG).tolist() == [
        [0, 0, 1, 0, 1, 0],  # right
        [0, 0, 0, 1, 0, 1],  # left
        [1, 1, 0, 0, 0, 0],  # neither
        [0, 1, 0, 0, 1, 1],  # FIRE
        [1, 0, 1, 1, 0, 0],  # no FIRE
    ]


def test_each_action_of_the_full_set_has_one_movement_in_each_direction_and_one_of_the_button() -> None:
    movements = movements_of(ALL)
    assert movements.shape == (8, 18) and (movements.sum(0) == 3).all()
    assert len({tuple(column) for column in movements.T.tolist()}) == 18, "they tell all actions apart"
    upfire = movements[:, ALL.index("UPFIRE")]
    assert movements[:, ALL.index("UP")] @ upfire == 2 and movements[:, ALL.index("DOWN")] @ upfire == 1


def test_what_is_learned_of_an_action_also_counts_for_those_with_its_movements() -> None:
    torch.manual_seed(0)
    head, features = JoystickHead(slice(0, 5), ALL), torch.randn(5)
    before = head(features).detach()
    head(features)[ALL.index("UP")].backward()
    with torch.no_grad():
        for parameter in head.parameters():
            assert parameter.grad is not None
            parameter.add_(parameter.grad)
    gained = dict(zip(ALL, (head(features) - before).tolist(), strict=True))
    step = gained["UP"] / 4  # its own output, up, neither to the right nor to the left, and no FIRE
    shared = {"UPRIGHT": 2, "UPFIRE": 2, "DOWN": 2, "UPRIGHTFIRE": 1, "DOWNRIGHTFIRE": 0, "NOOP": 2}
    assert step > 0
    for name, movements in shared.items():
        assert gained[name] == pytest.approx(movements * step, abs=1e-5), name


def test_it_begins_as_a_head_without_shared_weights() -> None:
    torch.manual_seed(0)
    head, features = JoystickHead(slice(1, 6), PONG), torch.randn(3, 4, 7)
    torch.testing.assert_close(head(features), torch.nn.functional.linear(features[..., 1:6], head.weight, head.bias))


def test_only_games_with_named_actions_have_it_and_only_with_the_option() -> None:
    assert isinstance(network_of(PONG).policy_head, JoystickHead)
    assert type(network_of(PONG, factored_actions=False).policy_head) is Head
    without_names = ActorCritic(NetworkOptions(factored_actions=True), LAYOUT, torch.float32)
    assert type(without_names.policy_head) is Head


def test_a_head_without_shared_weights_does_not_fit_weights_with_them() -> None:
    """With --load_weights_only and another --factored_actions, the policy head would begin anew."""
    network, other = network_of(PONG), network_of(PONG, factored_actions=False)
    adapted = other.adapted(network.state_dict())
    assert {name for name in adapted if name.startswith("policy_head")} == {"policy_head.weight", "policy_head.bias"}
    other.load_saved(adapted)
