"""The code that a run plays with, apart from this program: packages, and modules of the user's.

Another version of it may have the same observations and actions, and play another game. So nodes compare theirs with
the learner's.
"""

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import packages_distributions, version
from pathlib import Path

import gymnasium

from agents.torsos.own_torso import is_own
from cluster.node_code import hash_of_files
from option_flags import Config, EnvironmentOptions
from options.presets import is_noframeskip
from wrappers.any_environment.registry import find_environment, import_module

ENGINES = {"gymnasium.envs.mujoco": "mujoco", "gymnasium.envs.box2d": "Box2D"}  # of Gymnasium's own environments
INSTALLED = {"site-packages", "dist-packages"}  # folders; a package that is being edited is elsewhere


def played_code(config: Config) -> dict[str, str]:
    """What each package or module of a run has: its version, or a hash of its source files.

    Of a module in a package, it is the whole package. What these import is left out. UsageError if a module of the
    user's cannot be imported.
    """
    options, network = config.environment, config.network.network
    modules = {"gymnasium", *_environment_modules(options)}
    for flag, value in (("env_wrapper", options.env_wrapper), ("network", network if is_own(network) else None)):
        if value is not None:
            module = value.partition(":")[0]
            import_module(module, f"--{flag}={value}")
            modules.add(module)
    names = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    packages = packages_distributions()
    return {name: _contents(name, packages.get(name, ())) for name in sorted(names)}


def difference(here: Mapping[str, str], learners: Mapping[str, str]) -> str | None:
    """What differs on a node, as the end of a sentence; None if nothing does."""
    for name, expected in learners.items():
        found = here.get(name, "nothing")
        if found != expected:
            return f"its {name} has {found}, and the learner's has {expected}; the same would be right"
    return None


def _environment_modules(options: EnvironmentOptions) -> Iterable[str]:
    """The module that registers the environment, the one that makes it, and the engine that it plays with."""
    if is_noframeskip(options.env):
        return {"ale_py"}
    entry = gymnasium.registry[find_environment(options.env)].entry_point
    maker = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    named = options.env.rpartition(":")[0]
    engines = {engine for start, engine in ENGINES.items() if maker.startswith(start)}
    return {maker, named, *engines} - {"", "__main__"}


def _contents(name: str, distributions: Iterable[str]) -> str:
    """The version of an installed package; a hash of the source files of any other one."""
    loaded = sys.modules.get(name)
    spec = importlib.util.find_spec(name) if loaded is None else loaded.__spec__
    if spec is None:
        return "nothing"
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()]
    places = folders or [Path(spec.origin or "")]
    if distributions and all(INSTALLED & {*place.parts} for place in places):
        return "version " + ", ".join(sorted({version(each) for each in distributions}))
    files = [(file.relative_to(folder), file) for folder in folders for file in sorted(folder.rglob("*.py"))]
    files = files or [(Path(place.name), place) for place in places if place.is_file()]
    return f"source files {hash_of_files(files)}"
