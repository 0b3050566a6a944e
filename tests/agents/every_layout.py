"""Layouts of every combination of observations and actions, and networks, learners and unrolls for them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from agents.acting import Actor, ActorState
from agents.gradients import Record
from agents.learner import Learner
from agents.network import ActorCritic
from option_flags import LossOptions, NetworkOptions, OptimizerOptions
from replay.mix import Batch
from replay.unroll_layout import UnrollLayout
from tests.agents.learners import ALL_TERMS

STEPS, VECTOR, ONE_HOT = 4, 6, 2
PICTURES = UnrollLayout(unroll_length=STEPS, frame_stack=2, frame_shape=(1, 12, 12), action_sizes=(5,), feature_size=3)
PARTS: dict[str, dict[str, Any]] = {
    "picture": {},
    "vector": {
        "frame_stack": 0,
        "frame_shape": (0, 0, 0),
        "vector_size": VECTOR,
        "one_hot_size": ONE_HOT,
    },
    "both": {"vector_size": VECTOR, "one_hot_size": ONE_HOT},
}
ACTIONS: dict[str, dict[str, Any]] = {
    "discrete": {"action_kind": "discrete", "action_sizes": (5,)},
    "product": {"action_kind": "product", "action_sizes": (2, 3)},
    "gaussian": {"action_kind": "gaussian", "action_sizes": (0, 0)},
    "mixed": {"action_kind": "mixed", "action_sizes": (2, 3, 0)},
}
every_layout = pytest.mark.parametrize(
    "layout",
    [
        pytest.param(replace(PICTURES, **parts, **actions, lstm_size=lstm), id=f"{observed}-{kind}-{lstm}")
        for observed, parts in PARTS.items()
        for kind, actions in ACTIONS.items()
        for lstm in (0, 3)
    ],
)
vectors_only = replace(PICTURES, **PARTS["vector"])


def network_of(
    layout: UnrollLayout, seed: int = 0, dtype: torch.dtype = torch.float32, name: str = "auto"
) -> ActorCritic:
    torch.manual_seed(seed)
    network = ActorCritic(NetworkOptions(network=name), layout, dtype)
    torch.nn.init.normal_(network.policy_head.weight, std=0.3)
    return network


def learner_of(
    layout: UnrollLayout,
    loss: LossOptions = ALL_TERMS,
    optimizer: OptimizerOptions | None = None,
    name: str = "auto",
    device: str = "cpu",
    announce: Callable[[str], None] = lambda message: None,
    record: Record[Any] | None = None,
) -> Learner:
    optimizer = replace(optimizer or OptimizerOptions(), lr_warmup_updates=0)
    network = network_of(layout, name=name)
    learner = Learner(network, layout, loss, optimizer, 100, torch.device(device))
    if record is not None:
        learner.record(record, announce)
    return learner


def played(layout: UnrollLayout, network: ActorCritic, count: int, seed: int = 0) -> Batch:
    """Unrolls of an actor that sees random observations, as a worker stores them; episodes end at random."""
    rng, actor = np.random.default_rng(seed), Actor(network)
    state = ActorState.at_start(count, layout)
    rows = np.zeros((count, layout.nbytes), np.uint8)
    fields = layout.arrays(rows)
    fields["frames"][:] = rng.integers(0, 256, fields["frames"].shape)
    fields["rewards"][:] = rng.normal(0, 1, (count, STEPS))
    if layout.vector_size:
        fields["vectors"][:] = rng.normal(3, 2, fields["vectors"].shape)
        fields["vectors"][..., -ONE_HOT:] = rng.integers(0, 2, (count, STEPS + 1, ONE_HOT))
    fields["first_action"][:], fields["first_lstm_state"][:] = state.previous_actions, state.lstm_state
    shape = count, layout.frame_stack * layout.frame_shape[0], *layout.frame_shape[1:]
    stack = fields["frames"][:, : layout.frame_stack].reshape(shape).copy()
    with torch.inference_mode():
        for t in range(STEPS):
            vectors = torch.from_numpy(fields["vectors"][:, t].copy()) if layout.vector_size else None
            uniforms = torch.from_numpy(rng.random((count, *layout.action_shape)))
            decision = actor.act(torch.from_numpy(stack.copy()), state, uniforms, vectors)
            fields["actions"][:, t], fields["behaviour_logits"][:, t] = decision.actions, decision.logits
            fields["values"][:, t], fields["features"][:, t] = decision.values, decision.features
            state.lstm_state = decision.lstm_state
            state.previous_actions.copy_(decision.actions)
            state.previous_rewards = torch.from_numpy(fields["rewards"][:, t].copy())
            if layout.has_pictures:
                stack = np.concatenate([stack[:, 1:], fields["frames"][:, layout.frame_stack + t]], axis=1)
            if t == 1:
                fields["dones"][0, t] = 1
                state.restart(0)
                stack[0] = fields["frames"][0, layout.frame_stack + t] if layout.has_pictures else 0
    return Batch(torch.from_numpy(rows), np.arange(count) % 2 == 0)
