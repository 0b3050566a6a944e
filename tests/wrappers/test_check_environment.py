"""A mistake in the flags of an environment ends in one sentence before anything starts."""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import main
from option_flags import Config
from options.rules import UsageError
from tests.processes import wait_until_gone
from tests.wrappers.hand_written import BLIND, CATCH, MISSING, WITH_PROGRAM, options_of
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.creation import create
from wrappers.make_environment import check_environment, make_environment

HERE = "tests.wrappers.hand_written"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"env": "CartPol-v1"}, r"\(Environment `CartPol` doesn't exist. Did you mean: `CartPole`\?\); module:CartPol"),
        ({"env": "cartpole-v1"}, r"Did you mean: `CartPole`\?"),
        ({"env": "CartPole-v77"}, r"\[ `v0`, `v1` \]"),
        ({"env": "Xyzzyxyzzy-v0"}, "not an environment that Gymnasium knows .*; module:Xyzzyxyzzy-v0 would import the"),
        (
            {"env": "MyGame-v0"},
            r"module:MyGame-v0 would import the module that registers it\.$",
        ),
        ({"env": "Pong-v4"}, "PongNoFrameskip-v4 or ALE/Pong-v5 would be right"),
        ({"env": "PongDeterministic-v4"}, "PongNoFrameskip-v4 or ALE/Pong-v5 would be right"),
        ({"env": "PongngNoFrameskip-v4"}, "the closest: PongNoFrameskip-v4"),
        ({"env": "dm_control/cartpole-v0"}, r"needs the package shimmy: pip install 'shimmy\[dm-control\]'"),
        ({"env": "phys2d/CartPole-v1"}, "cannot be made: ModuleNotFoundError: No module named 'jax'"),
        ({"env": "no_such_module:X-v0"}, "there is no module no_such_module in the current folder"),
        ({"env": "tests.no_such_module:X-v0"}, "there is no module tests.no_such_module in the current folder"),
        ({"env": f"{HERE}:Unknown-v0"}, "not an environment that Gymnasium knows"),
        ({"env": f"{HERE}:Spaceless-v0"}, "actions in a NoneType space, and supported are"),
        ({"env": f"{HERE}:Spaceless-v0", "env_kwargs": '{"action_space": 4}'}, "actions in a int space"),
        ({"env": MISSING}, "No module named 'no_such_module_anywhere'"),
        ({"env": CATCH, "env_wrapper": f"{HERE}:triple"}, "has no function triple"),
        ({"env": CATCH, "env_wrapper": "no_such_module:f"}, "--env_wrapper=.*there is no module no_such_module"),
        ({"env": CATCH, "env_wrapper": f"{HERE}:nothing"}, "must return an environment .*, not NoneType"),
        ({"env": "PongNoFrameskip-v4", "env_kwargs": '{"mode": 1}'}, "--env_kwargs has no meaning .* ALE/Pong-v5"),
        ({"env": "PongNoFrameskip-v4", "largest_pixel": 9}, "--largest_pixel has no meaning"),
    ],
)
@pytest.mark.slow
def test_one_sentence_says_what_would_be_right(flags: dict[str, Any], sentence: str) -> None:
    options = Config.from_flags(flags).environment
    with pytest.raises(UsageError, match=sentence) as raised:
        check_environment(options)
    assert str(raised.value).startswith("--")
    assert not raised.value.details
    with pytest.raises(UsageError, match=sentence):
        make_environment(options, seed=0) if flags["env"] != "PongNoFrameskip-v4" else check_environment(options)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"env_kwargs": '{"lanes": 0}'}, "constructor failed with ValueError: a lane is needed"),
        ({"env_wrapper": f"{HERE}:broken"}, "--env_wrapper=.* failed with RuntimeError: this wrapper never works"),
    ],
)
def test_an_exception_of_the_users_code_has_its_traceback_once(
    flags: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([f"--env={CATCH}", "--console=off", *(f"--{name}={value}" for name, value in flags.items())]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("Traceback") == 1
    assert err.count("hand_written.py") == 1
    assert err.splitlines()[-1].startswith("main.py: --env")
    with pytest.raises(UsageError, match=sentence):
        check_environment(options_of(CATCH, **flags))


def test_an_argument_that_the_environment_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match="constructor failed with TypeError: .* unexpected keyword argument 'lane'"):
        check_environment(options_of(CATCH, env_kwargs='{"lane": 3}'))


@pytest.mark.parametrize(
    ("module", "line", "error"),
    [
        ("broken_module", "math.unknown()", "AttributeError"),
        ("module_that_exits", "sys.exit(3)", "SystemExit: 3"),  # as argparse does in a script that is run when imported
    ],
)
def test_a_module_that_cannot_be_imported_shows_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, line: str, error: str
) -> None:
    (tmp_path / f"{module}.py").write_text(f"import math, sys\n{line}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=f"importing {module} failed with {error}") as raised:
        check_environment(options_of(f"{module}:X-v0"))
    assert line in raised.value.details


def test_a_module_of_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_module.py").write_text(
        "import gymnasium\ngymnasium.register('OwnModule/Catch-v0', entry_point='tests.wrappers.hand_written:Catch')\n"
    )
    monkeypatch.chdir(tmp_path)
    options = options_of("own_module:OwnModule/Catch-v0")
    check_environment(options)
    assert make_environment(options, 0).reset()[0].vector.shape == (2,)


def test_films_need_an_environment_that_renders() -> None:
    check_environment(options_of(CATCH), films=True)
    check_environment(options_of(BLIND), films=False)
    with pytest.raises(UsageError, match="--render: .* cannot be filmed: TypeError: render returned str"):
        check_environment(options_of(BLIND), films=True)


def test_films_that_need_a_package_say_only_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UsageError, match="--render: .* cannot be filmed: .*pygame is not installed") as raised:
        check_environment(options_of("CartPole-v1"), films=True)
    assert raised.value.details == ""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere MuJoCo needs no display")
@pytest.mark.parametrize(
    ("env", "display", "given", "chosen"),
    [
        ("Hopper-v5", "", "", "egl"),
        ("Hopper", "", "", "egl"),
        ("Hopper-v5", ":0", "", None),
        ("Hopper-v5", "", "osmesa", "osmesa"),
    ],
)
@pytest.mark.slow
def test_mujoco_is_filmed_without_a_display(
    monkeypatch: pytest.MonkeyPatch, env: str, display: str, given: str, chosen: str | None
) -> None:
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.setenv("WAYLAND_DISPLAY", "")
    monkeypatch.setenv("MUJOCO_GL", given)  # and back, after the test
    if not given:
        monkeypatch.delenv("MUJOCO_GL")
    create(options_of(env), films=True).close()
    assert os.environ.get("MUJOCO_GL") == chosen


def test_arguments_and_wrapper_reach_the_environment() -> None:
    env = make_environment(options_of(CATCH, env_kwargs='{"lanes": 7}', env_wrapper=f"{HERE}:doubled"), seed=0)
    assert isinstance(env, AnyEnvironment)
    assert env.spec_for_agent.action_sizes == (7,)
    env.reset()
    assert env.step(6)[1] == 12


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noop_threshold", 30), ("episodic_life", True), ("fire_on_reset", False), ("fire_on_life_loss", True),
        ("full_action_space", True), ("protocol", "machado"),
    ],
)  # fmt: skip
def test_options_of_noframeskip_games_are_refused_elsewhere(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"--(no)?{name}.* is only for Atari games whose id ends in"):
        options_of("CartPole-v1", **{name: value})
    with pytest.raises(UsageError, match="is only for Atari games"):
        options_of("ALE/Pong-v5", **{name: value})
    assert getattr(options_of("PongNoFrameskip-v4", **{name: value}), name) == value


def test_native_pictures_are_refused_in_noframeskip_games() -> None:
    with pytest.raises(UsageError, match="--frame_scale_resolution=native has no meaning for --env=PongNoFrameskip-v4"):
        options_of("PongNoFrameskip-v4", frame_scale_resolution="native")


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": NaN}', "3", '{"a": Infinity}'])
def test_arguments_must_be_a_json_object(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--env_kwargs must be a JSON object"):
        options_of(env_kwargs=text)


@pytest.mark.parametrize("text", ["module", "module:", ":f", "a b:f", "a:b:c", "1a:f", "a..b:f"])
def test_a_wrapper_must_be_a_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--env_wrapper must be module:function"):
        options_of(env_wrapper=text)


def test_each_family_has_its_defaults() -> None:
    assert Config.from_flags({}) == Config() == Config.from_flags({"env": "PongNoFrameskip-v4"})
    ale, other = options_of("ALE/Pong-v5"), options_of("my_module:Game-v0")
    names = ["skipped_frames", "frames_stacked", "grayscaling_frames", "frame_scale_resolution", "noop_threshold"]
    names += ["episodic_life", "reward_clipping_method"]
    assert [getattr(ale, name) for name in names] == [1, 4, True, "84,84", 0, False, "abs_one_sign"]
    assert [getattr(other, name) for name in names] == [1, 1, False, "native", 0, False, "none"]
    assert options_of("CartPole-v1", frames_stacked=3).frames_stacked == 3


def test_saved_flags_are_complete_so_defaults_do_not_matter() -> None:
    config = Config.from_flags({"env": "CartPole-v1"})
    assert Config.from_flags(json.loads(json.dumps(config.flags()))) == config


def test_an_environment_that_cannot_be_closed_before_its_first_game_is_accepted() -> None:
    check_environment(options_of(CATCH, env_wrapper=f"{HERE}:closed_after_a_game"))


@pytest.mark.parametrize(("observes", "films"), [("numbers", False), ("numbers", True), ("text", False)])
def test_an_environment_is_closed_whatever_the_check_says(tmp_path: Path, observes: str, films: bool) -> None:
    mark = tmp_path / "mark"
    arguments = json.dumps({"mark": str(mark), "observes": observes})
    with suppress(UsageError):
        check_environment(options_of(WITH_PROGRAM, env_kwargs=arguments), films=films)
    wait_until_gone(int(mark.read_text()), seconds=5.0)
