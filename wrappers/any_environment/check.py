"""Checks, before anything starts, that an environment can be made and played."""

from functools import cache

from option_flags import EnvironmentOptions
from options.rules import UsageError
from wrappers.any_environment.adapter import AnyEnvironment
from wrappers.any_environment.creation import PICTURES, closing_quietly, create, is_mujoco
from wrappers.any_environment.faults import FAILURES, UserCodeError, last_line, traceback_of, users_code
from wrappers.any_environment.pictures import colour_picture
from wrappers.any_environment.registry import find_environment


@cache  # the runs of a sweep often have the same environment
def check_any_environment(options: EnvironmentOptions, films: bool) -> None:
    """Raise a UsageError if the environment cannot be made; with `films`, if it cannot render."""
    with closing_quietly(create(options)) as environment:
        if films:
            _check_films(options, environment.metadata.get("render_modes"))
        AnyEnvironment(environment, options, seed=0)


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
