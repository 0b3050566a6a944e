"""Runs of an environment that raises an exception for nine tenths of its actions, which its masks leave out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession

from agents.distributions import IMPOSSIBLE, Categorical, masked, one_choice
from evaluation import export
from evaluation.score_checkpoint import score_checkpoint
from option_flags import Config
from options.rules import UsageError
from run_files.checkpoint import find_checkpoint
from tests.exploring import exploring
from tests.permitted import CHOICES, PERMITTED
from tests.training.catch_runs import CATCH, reports, resume_run
from tests.training.test_any_environment import EVERY_REPLAY
from training.train import train
from wrappers.make_environment import make_environment

POLICIES = [(one_choice(4), [0, 1, 0, 1]), (Categorical((2, 3)), [0, 1, 1, 0, 1])]
BY_POLICY = EVERY_REPLAY.replace('"lambda', '"dist_function": "kl_div", "lambda')


@pytest.mark.parametrize(("policy", "mask"), POLICIES, ids=["discrete", "product"])
def test_a_masked_policy_is_one_over_the_choices_that_are_left(policy: Categorical, mask: list[int]) -> None:
    """It never samples another one, and has the entropy, KL and gradient of a policy over these alone."""
    left, generator = np.flatnonzero(mask), torch.Generator().manual_seed(0)
    kept = [int(sum(part)) for part in np.split(np.array(mask), np.cumsum(policy.sizes)[:-1])]
    smaller = Categorical(tuple(kept), policy.is_single)
    p, q = (torch.randn(50, len(mask), generator=generator, dtype=torch.float64) for _ in range(2))
    p.requires_grad_()
    large = [masked(each, torch.tensor(mask)) for each in (p, q)]
    small = [each[:, left] for each in (p, q)]
    for one, other in (
        (policy.entropy(large[0]), smaller.entropy(small[0])),
        (policy.kl_divergence(*large), smaller.kl_divergence(*small)),
        (policy.implied_divergence(large[0], large[1], 1.0), smaller.implied_divergence(small[0], small[1], 1.0)),
    ):
        torch.testing.assert_close(one, other)
    (gradient,) = torch.autograd.grad(policy.entropy(large[0]).sum() + policy.kl_divergence(*large).sum(), p)
    (expected,) = torch.autograd.grad(smaller.entropy(small[0]).sum() + smaller.kl_divergence(*small).sum(), p)
    torch.testing.assert_close(gradient, expected)
    shape = () if policy.is_single else (len(policy.sizes),)
    for number in (0.0, 0.3, 0.999, float(np.nextafter(1.0, 0.0))):
        for logits in (large[0], 40 * large[0]):
            actions = policy.sample(logits.float(), torch.full((50, *shape), number, dtype=torch.float64))
            assert (policy.encode(actions) <= torch.tensor(mask)).all()
            assert (policy.log_prob(logits, actions) > IMPOSSIBLE / 2).all()
        assert (policy.encode(policy.most_likely(large[0])) <= torch.tensor(mask)).all()


def masked_run(results: Path, factors: int, source: str, make: Any = make_environment, **flags: Any) -> Path:
    arguments = json.dumps({"factors": factors, "source": source})
    given = {**CATCH, "env": PERMITTED, "env_kwargs": arguments, "results_dir": str(results), **flags}
    return train(Config.from_flags(given), make)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factors", "source", "flags"),
    [
        (0, "info", {"use_kl_mask": True, "use_policy_cloning_loss": True, "replay_parameters": BY_POLICY}),
        (2, "method", {"use_lstm": True, "lstm_size": 8, "loss": "impact"}),
        (0, "info", {"inference": "learner"}),
    ],
    ids=["replays", "impact", "server"],
)
def test_what_is_masked_is_never_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factors: int, source: str, flags: dict[str, Any]
) -> None:
    make = exploring(make_environment, monkeypatch)
    flags = {"exploring_share": 0.5, "environment_max_steps": 800, "worker_restart_budget": 0, **flags}
    folder = masked_run(tmp_path, factors, source, make, **flags)
    last = reports(resume_run(folder, make, environment_max_steps=1_200))[-1]
    assert last["held_share"] > 0
    assert last["agent_steps"] == 1_200 and last["worker_restarts"] == 0
    assert 0 < last["entropy"] <= max(1, factors) * np.log(2) + 1e-6, "at most two choices are left"
    parent = find_checkpoint(str(folder))
    given = {**parent.played_options, "op_mode": "test", "load_model_url": str(folder), "test_episode_count": 2}
    for policy in ("sampled", "greedy"):
        config = Config.from_flags({**given, "test_policy": policy, "render": policy == "sampled"})
        score_checkpoint(config, make_environment, parent)


@pytest.mark.slow
def test_the_exported_policy_takes_the_mask(tmp_path: Path) -> None:
    folder = masked_run(tmp_path, 0, "info", environment_max_steps=400)
    export.export(find_checkpoint(str(folder)), tmp_path / "export")
    policy = InferenceSession(tmp_path / "export" / "policy.onnx", providers=["CPUExecutionProvider"])
    mask = torch.zeros(3, CHOICES)
    mask[:, 7] = 1
    given = {"vectors": torch.rand(3, CHOICES).numpy(), "action_masks": mask.numpy()}
    logits = torch.from_numpy(policy.run(["logits"], given)[0])
    assert (logits[:, 7] > IMPOSSIBLE).all() and (logits[mask == 0] == IMPOSSIBLE).all()


def test_a_masked_environment_with_repeated_actions_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--skipped_frames repeats actions"):
        masked_run(tmp_path, 0, "info", skipped_frames=4)
    assert not list(tmp_path.iterdir())
