"""Finds environments in Gymnasium's registry, and says what would be right if there is none."""

import importlib
import re
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

import ale_py
import gymnasium

from options.rules import UsageError
from wrappers.any_environment.faults import FAILURES, UserCodeError, last_line, traceback_of, users_code

CHECKOUT = Path(__file__).resolve().parents[2]

# The beginning of ids: the module that registers them, and the package to install.
COLLECTIONS = {
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
    "MinAtar/": ("minatar", "minatar"),
    "ALE/": ("ale_py", "ale-py"),
    "dm_control/": ("shimmy", "'shimmy[dm-control]' 'mujoco<4'"),
    "highway-": ("highway_env", "highway-env"),
    "Fetch": ("gymnasium_robotics", "gymnasium-robotics 'mujoco<=3.5'"),
}
ATARI = "ale_py.env:AtariEnv"
# The modules of Gymnasium's own environments, and the extra that installs what they need.
EXTRAS = {"mujoco": "mujoco", "box2d": "box2d", "toy_text": "toy-text", "classic_control": "classic-control"}


def find_environment(env: str) -> str:
    """Import what registers the environment and return its id in the registry. UsageError if there is none.

    An id without a version stands for the newest one, as in `gymnasium.make`.
    """
    module, _, name = env.rpartition(":")
    if module:
        import_module(module, f"--env={env}")
    else:
        _load_collection(name)
    name = _newest_version(name) if name not in gymnasium.registry else name
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error as error:
        raise _unknown(env, name, error) from None
    if spec.entry_point == ATARI and not name.startswith("ALE/"):
        raise _old_atari_id(env, _atari_game(name))
    return name


def _atari_game(name: str) -> str:
    """The name of the game in an id of Gymnasium's older forms."""
    return re.sub(r"(Deterministic|-ram)*(-v\d+)?$", "", name)


def _old_atari_id(env: str, game: str) -> UsageError:
    return UsageError(
        f"--env={env} is an old id of an Atari game; {game}NoFrameskip-v4 or ALE/{game}-v5 would be right."
    )


@users_code()
def import_function(name: str, flag: str) -> Callable[..., Any]:
    """The function that `module:function` names. UsageError if there is none."""
    module, _, function = name.partition(":")
    import_module(module, flag)
    found = getattr(importlib.import_module(module), function, None)
    if not callable(found):
        raise UsageError(f"{flag}: the module {module} has no function {function}.")
    return found  # type: ignore[no-any-return]


@users_code()
def import_module(module: str, flag: str) -> None:
    """Import a module of the user's, also from the current folder. UsageError if that fails."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    first = module.partition(".")[0]
    if Path.cwd() != CHECKOUT and _has_module(Path.cwd(), first) and _has_module(CHECKOUT, first):
        raise UsageError(f"{flag}: {first} is also a module of this program; another name for yours would be right.")
    missing = _import(module, flag)
    if missing is not None:
        raise UsageError(
            f"{flag}: there is no module {missing.name} in the current folder ({folder}) or among the installed "
            "packages."
        )


def _import(module: str, flag: str) -> ModuleNotFoundError | None:
    """Import a module, or return the error if it does not exist. UserCodeError if its code fails."""
    try:
        importlib.import_module(module)
    except FAILURES as error:
        # The module itself, or a package that it is in.
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            return error
        raise _import_failed(flag, module, error) from None
    return None


def _import_failed(flag: str, module: str, error: BaseException) -> UserCodeError:
    return UserCodeError(f"{flag}: importing {module} failed with {last_line(error)}.", traceback_of(error))


def _has_module(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()


def package_for(name: str) -> str:
    """The command that installs what an environment of this id needs; empty if it is not known."""
    for start, (_, package) in COLLECTIONS.items():
        if name.startswith(start):
            return f"pip install {package}"
    spec = gymnasium.registry.get(name)
    entry = str(spec.entry_point) if spec else ""
    for folder, extra in EXTRAS.items():
        if entry.startswith(f"gymnasium.envs.{folder}"):
            return f"pip install 'gymnasium[{extra}]'"
    return ""


def _load_collection(name: str) -> None:
    """Register the environments of the package that the id belongs to, if it is installed."""
    gymnasium.register_envs(ale_py)
    for start, (module, package) in COLLECTIONS.items():
        if name.startswith(start) and name not in gymnasium.registry and _import(module, f"--env={name}"):
            raise UsageError(f"--env={name} needs the package {module}: pip install {package}")
    if name not in gymnasium.registry:
        for plugin in entry_points(group="gymnasium.envs"):
            if plugin.name in (name.partition("/")[0], "__root__"):
                _register(plugin, name)


def _register(plugin: EntryPoint, name: str) -> None:
    """Let an installed package register its environments. One for all namespaces may fail: it need not be meant."""
    try:
        plugin.load()()
    except FAILURES as error:
        if plugin.name != "__root__":
            raise _import_failed(f"--env={name}", plugin.value, error) from None


def _newest_version(name: str) -> str:
    """The registered id that an id without a version stands for; the id itself if there is none."""
    found = [known for known in gymnasium.registry if re.fullmatch(rf"{re.escape(name)}-v\d+", known)]
    return max(found, key=lambda known: int(known.rpartition("-v")[2]), default=name)


def _unknown(env: str, name: str, why: gymnasium.error.Error) -> UsageError:
    game = _atari_game(name)
    if f"ALE/{game}-v5" in gymnasium.registry and not name.startswith("ALE/"):
        return _old_atari_id(env, game)
    hints = []
    if package := package_for(name):
        hints.append(f"it may need another version of its package: {package}")
    if env == name:
        hints.append(f"module:{name} would import the module that registers it")
    else:
        hints.append(f"gymnasium.register in {env.rpartition(':')[0]} would add it")
    return UsageError(f"--env={env} is not an environment that Gymnasium knows ({why}); {'; '.join(hints)}.")
