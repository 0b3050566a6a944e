"""Action masks of an environment: how they reach the agent, and what is wrong with one."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from option_flags import Config
from options.rules import UsageError
from tests.wrappers.hand_written import Scripted, options_of
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.faults import EnvironmentFaultError

NUMBER = spaces.Box(-1, 1, (1,), np.float32)
MASK = np.array([0, 1, 1], np.int8)


class Masked(Scripted):
    """Gives a script of masks, the first one at the reset; None: no mask."""

    def __init__(self, masks: list[Any], **arguments: Any) -> None:
        super().__init__(NUMBER, observations=[np.zeros(1, np.float32)], **arguments)
        self._masks = iter(masks)

    def _info(self) -> dict[str, Any]:
        mask = next(self._masks)
        return {} if mask is None else {"action_mask": mask}

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        return super().reset(**arguments)[0], self._info()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return *super().step(action)[:4], self._info()


def agent_of(masks: list[Any], options: dict[str, Any] | None = None, **arguments: Any) -> AnyEnvironment:
    return AnyEnvironment(Masked(masks, **arguments), options_of(**(options or {})), 0)


@pytest.mark.parametrize(
    ("space", "mask", "expected"),
    [
        (spaces.Discrete(3), MASK, [0, 1, 1]),
        (spaces.Discrete(3, start=5), [True, False, True], [1, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), np.array([1, 0, 0, 1, 1]), [1, 0, 0, 1, 1]),
        (spaces.MultiDiscrete([2, 3]), (np.array([1, 0]), np.array([0, 0, 1])), [1, 0, 0, 0, 1]),
    ],
)
def test_the_mask_comes_after_the_numbers(space: spaces.Space[Any], mask: Any, expected: list[int]) -> None:
    agent = agent_of([mask] * 3, action_space=space)
    assert agent.spec_for_agent.mask_size == 0
    assert agent.reset()[0].vector.tolist() == [0, *expected]
    spec = agent.spec_for_agent
    assert (spec.vector_size, spec.mask_size) == (1, len(expected))
    assert agent.step(agent.action_space.sample())[0].vector.tolist() == [0, *expected]


def test_a_method_is_asked_where_there_is_no_entry() -> None:
    env = Masked([None, None])
    env.action_masks = lambda: MASK  # type: ignore[attr-defined]
    agent = AnyEnvironment(gymnasium.Wrapper(env), options_of(), 0)
    assert agent.reset()[0].vector.tolist() == agent.step(1)[0].vector.tolist() == [0, 0, 1, 1]


def test_after_the_last_step_no_action_need_be_left() -> None:
    agent = agent_of([MASK, np.zeros(3), MASK], ends={1: (True, False)})
    agent.reset()
    assert agent.step(1)[2] and agent.reset()[0].vector.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("masks", "sentence"),
    [
        (
            [MASK, np.zeros(3)],
            "in step 1 of a game: the action mask leaves no action; .* would be right",
        ),
        ([MASK, np.ones(4)], r"the action mask has the shape \[4\], not \[3\]"),
        ([MASK, 5], "the action mask is 5; an array of 0 and 1 would be right"),
        ([MASK, None], "there is no action mask, and the first reset gave one"),
        ([None, MASK], "there is an action mask, and the first reset gave none"),
    ],
)
def test_a_wrong_mask_is_a_fault(masks: list[Any], sentence: str) -> None:
    agent = agent_of(masks)
    agent.reset()
    with pytest.raises(EnvironmentFaultError, match=sentence):
        agent.step(1)


def test_a_factor_without_a_choice_is_a_fault() -> None:
    agent = agent_of([np.array([1, 1, 0, 0, 0])] * 4, action_space=spaces.MultiDiscrete([2, 3]))
    with pytest.raises(EnvironmentFaultError, match="in a reset: the action mask leaves no action"):
        agent.reset()


@pytest.mark.parametrize(("flag", "value"), [("skipped_frames", 4), ("repeat_action_probability", 0.25)])
def test_what_repeats_actions_is_refused(flag: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{flag} repeats actions, .*, or --noaction_masks, would be right"):
        agent_of([MASK], {flag: value}).reset()
    assert agent_of([None], {flag: value}).reset()[0].vector.tolist() == [0]


def test_masks_can_be_left_out() -> None:
    assert Config().environment.action_masks
    assert agent_of([MASK], {"action_masks": False}).reset()[0].vector.tolist() == [0]
