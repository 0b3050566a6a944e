"""What a run or a test takes over from a checkpoint, and flags that do not go with it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from option_flags import Config, NetworkOptions, merged
from options.rules import UsageError
from run_files.checkpoint import Checkpoint, check_resumable, inherited_options
from tests.options.other_values import OTHER_VALUES
from tests.run_files.some_checkpoint import some_content

RESUMED = {"op_mode": "train_w_load"}
TESTED = {"op_mode": "test"}
WEIGHTS = {"op_mode": "train_w_load", "load_weights_only": True}
PONG, CARTPOLE = "PongNoFrameskip-v4", "CartPole-v1"


def saved(**options: Any) -> Checkpoint:
    flags = {**Config.from_flags(options).flags(), "gamma": 0.5}
    return Checkpoint(Path("run/checkpoint.pt"), some_content(options=flags))


def test_a_resumed_run_a_test_and_a_run_from_weights_inherit_what_is_theirs() -> None:
    checkpoint = saved(use_lstm=True)
    resumed, tested, new = (inherited_options(checkpoint, given) for given in (RESUMED, TESTED, WEIGHTS))
    assert resumed["gamma"] == 0.5 and "gamma" not in tested and "gamma" not in new
    assert resumed["use_lstm"] and tested["use_lstm"] and new["use_lstm"]


@pytest.mark.parametrize("given", [{"stop_at": "length:300"}, {"stop_at_return": 500.0}])
@pytest.mark.parametrize("before", [{"stop_at": "length:9"}, {"stop_at_return": 400.0}, {}])
def test_an_end_that_is_given_replaces_that_of_the_run(given: dict[str, Any], before: dict[str, Any]) -> None:
    words = {**RESUMED, "load_model_url": "run", **given}
    run = Config.from_flags(merged(inherited_options(saved(**before), words), words)).run
    assert {name: value for name in ("stop_at", "stop_at_return") if (value := getattr(run, name)) is not None} == given


def test_a_run_from_weights_inherits_every_option_of_the_network() -> None:
    """But for the size of the features that replays compare, which the weights do not depend on."""
    names = {item.name for item in fields(NetworkOptions)} - {"feature_out_layer_size"}
    others = {name: OTHER_VALUES[name] for name in names}
    new = inherited_options(saved(**others), WEIGHTS)
    assert {name: new[name] for name in names} == others


def test_a_run_from_weights_inherits_the_environment_unless_another_is_given() -> None:
    own: dict[str, Any] = {"env": CARTPOLE, "env_kwargs": '{"sutton_barto_reward": true}', "env_wrapper": "mine:wrap"}
    own |= {"largest_pixel": 10}
    checkpoint = saved(**own)
    same, other = (inherited_options(checkpoint, {**WEIGHTS, **given}) for given in ({}, {"env": "Acrobot-v1"}))
    assert same == {**other, **own} and not own.keys() & other.keys()


@pytest.mark.parametrize(("env", "other"), [(CARTPOLE, PONG), (PONG, CARTPOLE), (PONG, "QbertNoFrameskip-v4")])
def test_another_environment_is_refused_by_its_own_name(env: str, other: str) -> None:
    """Not by the name of an option that follows from it."""
    for mode, instead in ((TESTED, ""), (RESUMED, ", or start a new run with --op_mode=train")):
        with pytest.raises(UsageError) as refused:
            inherited_options(saved(env=env), {**mode, "env": other})
        assert str(refused.value) == f"--env={other} does not fit a checkpoint with {env}; leave the flag out{instead}."
        assert inherited_options(saved(env=env), {**mode, "env": env})["env"] == env


def test_weights_go_to_another_environment() -> None:
    for env, other in ((CARTPOLE, "Acrobot-v1"), (PONG, "QbertNoFrameskip-v4"), (PONG, "ALE/Pong-v5")):
        given = {**WEIGHTS, "load_model_url": "run", "env": other}
        assert Config.from_flags(merged(inherited_options(saved(env=env), given), given)).environment.env == other


def test_another_game_or_other_actions_are_refused() -> None:
    checkpoint = saved()
    check_resumable(Config(), checkpoint)
    with pytest.raises(UsageError, match=r"--env=QbertNoFrameskip-v4 .* a checkpoint with PongNoFrameskip-v4.*\.$"):
        check_resumable(Config.from_flags({"env": "QbertNoFrameskip-v4"}), checkpoint)
    for flag in ("full_action_space", "factored_actions"):
        with pytest.raises(UsageError, match=rf"^--{flag}=True does not fit a checkpoint with False; leave"):
            check_resumable(Config.from_flags({flag: True}), checkpoint)


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ({}, "--settings=standard with its --network=auto"),
        ({"network": "separate_mlp"}, "--settings=standard with its --popart=False"),
        ({"network": "mlp"}, "--network=mlp"),
    ],
)
def test_a_refusal_names_the_settings_that_a_flag_comes_from(given: dict[str, Any], flag: str) -> None:
    checkpoint = saved(env="Pendulum-v1", settings="continuous")
    config = Config.from_flags(merged(checkpoint.options, {"settings": "standard", **given}))
    with pytest.raises(UsageError, match=f"^{flag} does not fit"):
        check_resumable(config, checkpoint)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"environment_max_steps": 301}, None),
        ({"environment_max_steps": 300}, r"--environment_max_steps=300 is already reached: .* 300 agent steps; .*\.$"),
        ({"stop_at_return": 4.0}, r"--stop_at_return=4 is already reached: the run ended at it; .*\.$"),
        ({"stop_at_return": 4.1}, None),
        ({"stop_at": "return:3.9"}, r"--stop_at_return=3\.9 is already reached"),
        ({"stop_at": "length:3"}, None),
    ],
)
def test_a_run_that_is_complete_cannot_go_on(flags: dict[str, Any], why: str | None) -> None:
    checkpoint = saved()
    checkpoint.content["progress"]["reached_goal"] = ["return", 4.0]
    if why is None:
        check_resumable(Config.from_flags(flags), checkpoint)
    else:
        with pytest.raises(UsageError, match=f"^{why}"):
            check_resumable(Config.from_flags(flags), checkpoint)


@pytest.mark.parametrize(
    ("goal", "reached", "inherited"), [(3.1, None, 3.1), (None, None, None), (3.5, 3.5, None), (4.5, 3.5, 4.5)]
)
def test_a_reached_goal_is_not_inherited(goal: float | None, reached: float | None, inherited: float | None) -> None:
    """Also if games that ended after it have lowered the mean again."""
    checkpoint = saved(stop_at_return=goal)
    checkpoint.content["progress"]["reached_goal"] = None if reached is None else ["return", reached]
    assert checkpoint.options["stop_at_return"] == inherited
