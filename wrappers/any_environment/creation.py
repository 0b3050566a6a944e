"""Finds an environment of Gymnasium, makes it with the user's wrapper, and checks before a run that both work."""

import importlib
import importlib.util
import json
import os
import re
import sys
import warnings
from collections.abc import Callable
from contextlib import chdir, suppress
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import ale_py
import gymnasium

from option_flags import EnvironmentOptions
from options.rules import UsageError
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.faults import FAILURES, last_line, traceback_of
from wrappers.any_environment.pictures import colour_picture
from wrappers.emulator import ATARI
from wrappers.environment import EnvironmentSpec

# The beginning of ids: the module that registers them, and the package to install.
COLLECTIONS = {
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "MinAtar/": ("minatar", "minatar"),
    "dm_control/": ("shimmy", "'shimmy[dm-control]' 'mujoco<4'"),
    "highway-": ("highway_env", "highway-env"),
    "Fetch": ("gymnasium_robotics", "gymnasium-robotics 'mujoco<=3.5'"),
}


@cache  # the runs of a sweep often have the same environment
def check_any_environment(options: EnvironmentOptions, films: bool) -> EnvironmentSpec:
    """Its observations and actions. UsageError if the environment cannot be made; with `films`, if it cannot render."""
    environment = create(options, films=films)
    try:
        if films:
            try:
                environment.reset(seed=0)
                colour_picture(environment.render())
            except FAILURES as error:
                sentence = f"--render: --env={options.env} cannot be filmed: {last_line(error)}."
                is_missing_package = isinstance(error, gymnasium.error.DependencyNotInstalled)
                raise UsageError(sentence, "" if is_missing_package else traceback_of(error)) from None
        return AnyEnvironment(environment, options, seed=0).spec_for_agent
    finally:
        with suppress(*FAILURES):  # nothing is lost if this fails, as it may in one that was never reset
            environment.close()


def create(options: EnvironmentOptions, *, films: bool = False) -> gymnasium.Env[Any, Any]:
    """The environment of these options, before anything of this platform is put around it.

    With `films` it can render. UsageError if it cannot be made.
    """
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # otherwise each environment prints a greeting
    name = find_environment(options.env)
    if "mujoco" in str(gymnasium.registry[name].entry_point):
        _prepare_mujoco(films)
    arguments = json.loads(options.env_kwargs) | ({"render_mode": "rgb_array"} if films else {})
    try:
        with chdir("."), warnings.catch_warnings():  # its code may change the folder, and Gymnasium warn of the id
            warnings.simplefilter("ignore")
            environment = gymnasium.make(name, disable_env_checker=True, **arguments)
    except (gymnasium.error.Error, ModuleNotFoundError) as error:  # they say what to install
        raise UsageError(f"--env={options.env} cannot be made: {last_line(error)}.") from None
    except FAILURES as error:
        cause = error.__cause__ or error  # Gymnasium adds a sentence of its own to a TypeError
        sentence = f"--env={options.env} cannot be made: its constructor failed with {last_line(cause)}."
        raise UsageError(sentence, traceback_of(cause)) from None
    return wrapped(environment, options.env_wrapper)


def wrapped(environment: gymnasium.Env[Any, Any], wrapper: str | None) -> gymnasium.Env[Any, Any]:
    """The environment inside the user's wrapper, `module:function`, if there is one."""
    if wrapper is None:
        return environment
    flag = f"--env_wrapper={wrapper}"
    wrap = import_function(wrapper, flag)
    try:
        inside = wrap(environment)
    except FAILURES as error:
        raise UsageError(f"{flag} failed with {last_line(error)}.", traceback_of(error)) from None
    if not isinstance(inside, gymnasium.Env):
        raise UsageError(f"{flag} must return an environment (gymnasium.Env), not {type(inside).__name__}.")
    return inside


def _prepare_mujoco(films: bool) -> None:
    """Otherwise MuJoCo tries a window first, and writes warnings about Gymnasium's own models to console and folder."""
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if films and sys.platform == "linux" and not has_display:
        os.environ.setdefault("MUJOCO_GL", "egl")
    if importlib.util.find_spec("mujoco"):
        importlib.import_module("mujoco").set_mju_user_warning(lambda message: None)


def find_environment(env: str) -> str:
    """Import what registers the environment and return its id in the registry. UsageError if there is none.

    An id without a version stands for the newest one, as in `gymnasium.make`.
    """
    module, _, name = env.rpartition(":")
    if module:
        import_module(module, f"--env={env}")
    else:
        _register_collection(name)
    if name not in gymnasium.registry:
        versions = [known for known in gymnasium.registry if re.fullmatch(rf"{re.escape(name)}-v\d+", known)]
        name = max(versions, key=lambda known: int(known.rpartition("-v")[2]), default=name)
    spec = gymnasium.registry.get(name)
    game = re.sub(r"(Deterministic|-ram)*(-v\d+)?$", "", name)
    if f"ALE/{game}-v5" in gymnasium.registry and (spec is None or spec.entry_point == ATARI):
        raise UsageError(
            f"--env={env} is an old id of an Atari game; {game}NoFrameskip-v4 or ALE/{game}-v5 would be right."
        )
    if spec is None:
        try:
            gymnasium.spec(name)
        except gymnasium.error.Error as error:
            hint = f"module:{name} would import the module that registers it"
            raise UsageError(f"--env={env} is not an environment that Gymnasium knows ({error}); {hint}.") from None
    return name


def _register_collection(name: str) -> None:
    """Import the package of the collection that the id belongs to, and let installed packages register theirs."""
    for start, (module, package) in COLLECTIONS.items():
        if name.startswith(start) and name not in gymnasium.registry:
            if importlib.util.find_spec(module) is None:
                raise UsageError(f"--env={name} needs the package {module}: pip install {package}")
            import_module(module, f"--env={name}")
    if name not in gymnasium.registry:
        for plugin in entry_points(group="gymnasium.envs"):
            with suppress(*FAILURES):  # it need not be the package that is meant
                plugin.load()()


def import_function(name: str, flag: str) -> Callable[..., Any]:
    """The function that `module:function` names. UsageError if there is none."""
    module, _, function = name.partition(":")
    import_module(module, flag)
    found = getattr(sys.modules[module], function, None)
    if not callable(found):
        raise UsageError(f"{flag}: the module {module} has no function {function}.")
    return found  # type: ignore[no-any-return]


def import_module(module: str, flag: str) -> None:
    """Import a module of the user's, also from the current folder. UsageError if that fails."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        with chdir("."):
            importlib.import_module(module)
    except FAILURES as error:
        # The module itself, or a package that it is in.
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise UsageError(
                f"{flag}: there is no module {error.name} in the current folder ({folder}) or among the installed "
                "packages."
            ) from None
        raise UsageError(f"{flag}: importing {module} failed with {last_line(error)}.", traceback_of(error)) from None
