"""Makes an environment with Gymnasium and the user's wrapper, and checks before a run that this is possible."""

import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import ale_py
import gymnasium

from option_flags import EnvironmentOptions
from options.rules import UsageError
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.faults import FAILURES, UserCodeError, last_line, traceback_of, users_code
from wrappers.any_environment.registry import find_environment, import_function, package_for
from wrappers.environment import EnvironmentSpec
from wrappers.films import colour_picture

PICTURES = "rgb_array"  # the render mode of films


@users_code()
def create(options: EnvironmentOptions, *, films: bool = False) -> gymnasium.Env[Any, Any]:
    """The environment of these options, before anything of this platform is put around it.

    With `films` it can render. UsageError if it cannot be made.
    """
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # otherwise each environment prints a greeting
    name = find_environment(options.env)
    arguments = options.make_arguments
    _check_arguments(arguments)
    if films:
        arguments["render_mode"] = PICTURES
        if is_mujoco(name):
            _render_without_display()
    environment = _made(options, name, arguments)
    if options.env_wrapper is not None:
        environment = _wrapped(environment, options)
    _check_spaces(environment, options.env)
    return environment


@contextmanager
def closing_quietly(environment: gymnasium.Env[Any, Any]) -> Iterator[gymnasium.Env[Any, Any]]:
    """Close the environment at the end. Nothing is lost if this fails, as it may in one that was never reset."""
    try:
        yield environment
    finally:
        with users_code(), suppress(Exception, SystemExit):
            environment.close()


def _check_spaces(environment: gymnasium.Env[Any, Any], env_id: str) -> None:
    for name in ("observation_space", "action_space"):
        space = getattr(environment, name, None)
        if not isinstance(space, gymnasium.Space):
            found = "no" if space is None else f"the {type(space).__name__} {space!r:.60} as"
            raise UsageError(f"--env={env_id} has {found} {name}; a space of Gymnasium would be right.")


def _check_arguments(arguments: dict[str, Any]) -> None:
    for name in ("id", "disable_env_checker"):  # those of gymnasium.make that are set here
        if name in arguments:
            raise UsageError(f'--env_kwargs: "{name}" is no argument of an environment; leaving it out would be right.')
    mode = arguments.get("render_mode", PICTURES)
    if mode != PICTURES:
        raise UsageError(
            f'--env_kwargs: the render_mode "{mode}" is not for training; "{PICTURES}" would be right, or none.'
        )


def is_mujoco(name: str) -> bool:
    """Whether an environment of the registry is one of those with MuJoCo."""
    return name in gymnasium.registry and "mujoco" in str(gymnasium.registry[name].entry_point)


def _silence_mujoco(name: str) -> None:
    """MuJoCo writes each warning about Gymnasium's own models to the console, and to a file in the current folder."""
    if is_mujoco(name) and importlib.util.find_spec("mujoco"):
        importlib.import_module("mujoco").set_mju_user_warning(lambda message: None)


def _render_without_display() -> None:
    """Without this, MuJoCo tries a window first, which fails for good where there is no display."""
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _made(options: EnvironmentOptions, name: str, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    _silence_mujoco(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shown once before the run: gymnasium_check.py
            return gymnasium.make(name, disable_env_checker=True, **arguments)
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        install = package_for(name)
        advice = f"; {install} would be right" if install else ""
        raise UsageError(f"--env={options.env} cannot be made: {last_line(error)}{advice}.") from None
    except gymnasium.error.Error as error:
        raise UsageError(f"--env={options.env} cannot be made: {last_line(error)}.") from None
    except FAILURES as error:
        cause = error.__cause__ or error  # Gymnasium adds a sentence of its own to a TypeError
        if isinstance(cause, TypeError) and "unexpected keyword argument" in str(cause):
            raise UsageError(
                f"--env_kwargs={options.env_kwargs} does not fit --env={options.env}: {last_line(cause)}."
            ) from None
        raise UserCodeError(
            f"--env={options.env} cannot be made: its constructor failed with {last_line(cause)}.",
            traceback_of(cause),
        ) from None


def _wrapped(environment: gymnasium.Env[Any, Any], options: EnvironmentOptions) -> gymnasium.Env[Any, Any]:
    flag = f"--env_wrapper={options.env_wrapper}"
    wrap = import_function(str(options.env_wrapper), flag)
    try:
        wrapped = wrap(environment)
    except FAILURES as error:
        raise UserCodeError(f"{flag} failed with {last_line(error)}.", traceback_of(error)) from None
    if not isinstance(wrapped, gymnasium.Env):
        raise UsageError(f"{flag} must return an environment (gymnasium.Env), not {type(wrapped).__name__}.")
    return wrapped


@cache  # the runs of a sweep often have the same environment
def check_any_environment(options: EnvironmentOptions, films: bool) -> EnvironmentSpec:
    """Its observations and actions. UsageError if the environment cannot be made; with `films`, if it cannot render."""
    with closing_quietly(create(options)) as environment:
        if films:
            _check_films(options, environment.metadata.get("render_modes"))
        return AnyEnvironment(environment, options, seed=0).spec_for_agent


def _check_films(options: EnvironmentOptions, modes: object) -> None:
    """Make the environment so that it renders, and render once."""
    if not isinstance(modes, list | tuple | set) or PICTURES not in modes:
        raise UsageError(
            f'--render needs an environment with the render mode "{PICTURES}", and --env={options.env} has '
            f"{', '.join(map(str, modes)) if isinstance(modes, list | tuple | set) and modes else 'none'}; "
            "--norender would be right."
        )
    with_mujoco = is_mujoco(find_environment(options.env))
    with closing_quietly(create(options, films=True)) as environment:
        try:
            with users_code():
                environment.reset(seed=0)
                colour_picture(environment.render())
        except FAILURES as error:
            advice = "; libEGL (libegl1), or MUJOCO_GL=osmesa with libOSMesa, would be right" if with_mujoco else ""
            raise UserCodeError(
                f"--render: --env={options.env} cannot be rendered: {last_line(error)}{advice}.", traceback_of(error)
            ) from None
