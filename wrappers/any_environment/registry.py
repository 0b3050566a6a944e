"""Finds environments in Gymnasium's registry, and says what would be right if there is none."""

import difflib
import importlib
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import ale_py
import gymnasium

from options.rules import UsageError
from wrappers.any_environment.faults import FAILURES, UserCodeError, is_missing, last_line, traceback_of, users_code

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
    known = [name] if name in gymnasium.registry else _versions_of(name)
    if not known:
        raise _unknown(env, name)
    if gymnasium.registry[known[-1]].entry_point == ATARI and not name.startswith("ALE/"):
        raise _old_atari_id(env, _atari_game(known[-1]))
    return known[-1]


def _atari_game(name: str) -> str:
    """The name of the game in an id of Gymnasium's older forms."""
    return re.sub(r"(Deterministic|-ram)*(-v\d+)?$", "", name)


def _old_atari_id(env: str, game: str) -> UsageError:
    return UsageError(
        f"--env={env} is an old id of an Atari game; {game}NoFrameskip-v4 or ALE/{game}-v5 would be right."
    )


@users_code()
def import_module(module: str, flag: str) -> None:
    """Import a module of the user's, also from the current folder. UsageError if that fails."""
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
    first = module.partition(".")[0]
    if Path.cwd() != CHECKOUT and _has_module(Path.cwd(), first) and _has_module(CHECKOUT, first):
        raise UsageError(f"{flag}: {first} is also a module of this program; another name for yours would be right.")
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not is_missing(error, module):
            raise UserCodeError(_import_failed(flag, module, error), traceback_of(error)) from None
        raise UsageError(
            f"{flag}: there is no module {error.name} in the current folder ({folder}) or among the installed packages."
        ) from None
    except FAILURES as error:
        raise UserCodeError(_import_failed(flag, module, error), traceback_of(error)) from None


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


def _import_failed(flag: str, module: str, error: BaseException) -> str:
    return f"{flag}: importing {module} failed with {last_line(error)}."


def _load_collection(name: str) -> None:
    """Register the environments of the package that the id belongs to, if it is installed."""
    gymnasium.register_envs(ale_py)
    for start, (module, package) in COLLECTIONS.items():
        if name.startswith(start) and name not in gymnasium.registry:
            try:
                importlib.import_module(module)
            except ModuleNotFoundError as error:
                if not is_missing(error, module):
                    raise UserCodeError(_import_failed(f"--env={name}", module, error), traceback_of(error)) from None
                raise UsageError(f"--env={name} needs the package {module}: pip install {package}") from None
            except FAILURES as error:
                raise UserCodeError(_import_failed(f"--env={name}", module, error), traceback_of(error)) from None
    if name not in gymnasium.registry:
        namespace = name.partition("/")[0]
        for plugin in entry_points(group="gymnasium.envs"):
            if plugin.name in (namespace, "__root__"):
                _register(plugin, name)


def _register(plugin: EntryPoint, name: str) -> None:
    """Let an installed package register its environments. One for all namespaces may fail: it need not be meant."""
    try:
        plugin.load()()
    except FAILURES as error:
        if plugin.name != "__root__":
            raise UserCodeError(_import_failed(f"--env={name}", plugin.value, error), traceback_of(error)) from None


def _versions_of(name: str) -> list[str]:
    """The registered ids that an id without a version can stand for, the newest one last."""
    found = [known for known in gymnasium.registry if re.fullmatch(rf"{re.escape(name)}-v\d+", known)]
    return sorted(found, key=lambda known: int(known.rpartition("-v")[2]))


def _unknown(env: str, name: str) -> UsageError:
    game = _atari_game(name)
    if f"ALE/{game}-v5" in gymnasium.registry and not name.startswith("ALE/"):
        return _old_atari_id(env, game)
    # Old ids of Atari games are registered, but this platform does not take them.
    known = [id_ for id_, spec in gymnasium.registry.items() if spec.entry_point != ATARI or id_.startswith("ALE/")]
    closest = sorted((id_ for id_ in known if _unversioned(id_) == _unversioned(name)), reverse=True)
    if not closest:
        lower = {id_.lower(): id_ for id_ in known}
        closest = [lower[match] for match in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=0.6)]
    package = package_for(name)
    hints = []
    if closest:
        hints.append(f"the closest: {', '.join(closest)}")
    elif package:
        hints.append(f"it may need another version of its package: {package}")
    if env == name:
        hints.append(f"module:{name} would import the module that registers it")
    elif not closest:
        hints.append(f"gymnasium.register in {env.rpartition(':')[0]} would add it")
    return UsageError(f"--env={env} is not an environment that Gymnasium knows; {'; '.join(hints)}.")


def _unversioned(name: str) -> str:
    return re.sub(r"-v\d+$", "", name)
