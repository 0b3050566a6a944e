"""The layout of unrolls for the observations and actions of an environment."""

from collections.abc import Mapping
from typing import Any

from agents.torsos.pictures import SMALL
from option_flags import Config
from options.presets import CONTINUOUS, NUMBERS, SMALL_PICTURES, STANDARD
from options.rules import UsageError
from replay.unroll_layout import UnrollLayout
from wrappers.any_environment.faults import EnvironmentFaultError
from wrappers.environment import USUAL_RATE, EnvironmentSpec, MakeEnvironment, environment_spec


def make_unroll_layout(config: Config, make_environment: MakeEnvironment) -> UnrollLayout:
    """The layout of the unrolls of `config.environment`; makes one environment to read its spaces."""
    return unroll_layout(config, read_spec(config, make_environment))


def read_spec(config: Config, make_environment: MakeEnvironment) -> EnvironmentSpec:
    """The observations and actions of `config.environment`; makes one environment to read them."""
    environment = make_environment(config.environment, 0)
    try:
        if environment.has_wrapper_attr("may_have_masks") and environment.get_wrapper_attr("may_have_masks"):
            environment.reset()  # which shows whether it has
    except EnvironmentFaultError as error:
        raise UsageError(f"--env={config.environment.env} has a fault, see above.", error.report) from None
    spec = environment_spec(environment)
    environment.close()
    return spec


def settle_fps(config: Config, spec: EnvironmentSpec | None) -> Config:
    """In real time with --fps=0: the configuration with the frame rate of its environment; None is an Atari game."""
    if not config.environment.in_real_time or config.realtime.fps:
        return config
    return config.replace_flags(fps=USUAL_RATE if spec is None else spec.frames_per_second)


def unroll_layout(config: Config, spec: EnvironmentSpec) -> UnrollLayout:
    """The layout of a run's unrolls."""
    return UnrollLayout(
        unroll_length=config.replay.r_f_steps,
        frame_stack=config.environment.frames_stacked if spec.has_pictures else 0,
        lstm_size=config.network.lstm_size if config.network.use_lstm else 0,
        feature_size=config.network.feature_out_layer_size if config.replay.ranks_by_features else 0,
        delayed_actions=config.environment.interaction != "turns",
        real_time=config.environment.in_real_time,
        explores=config.workers.exploring_share > 0 and config.environment.interaction == "turns",
        **spec.spaces,
    )


def suited_settings(spec: EnvironmentSpec) -> str:
    """The settings for an environment with such observations and actions."""
    if spec.has_pictures:
        return SMALL_PICTURES if min(spec.frame_shape[1:]) < SMALL else STANDARD
    return CONTINUOUS if spec.action_kind in ("gaussian", "mixed") else NUMBERS


def described_spaces(layout: UnrollLayout) -> dict[str, Any]:
    """The observations and actions of a run, as its checkpoints hold them."""
    spaces = {"frame_stack": layout.frame_stack, **layout.spaces}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in spaces.items()}


def check_spaces(content: Mapping[str, Any], layout: UnrollLayout) -> None:
    """Refuse an environment with other observations or actions than that of the run that saved this checkpoint."""
    differing = _differing(content, layout)
    if differing:
        raise UsageError(
            "--load_model_url: the environment has other observations or actions than that of the checkpoint "
            f"({differing[0]}); the --env_kwargs and the --env_wrapper of the training would be right."
        )


def check_observations(content: Mapping[str, Any], layout: UnrollLayout) -> None:
    """Refuse an environment with other observations, for a new run from the weights of this checkpoint.

    Its actions may be others: then the policy head is new.
    """
    differing = [text for text in _differing(content, layout) if not text.startswith("action")]
    if differing:
        raise UsageError(
            f"--load_weights_only: the environment has other observations than that of the checkpoint ({differing[0]}),"
            " so the weights do not fit; an environment with equal ones would be right."
        )


def _differing(content: Mapping[str, Any], layout: UnrollLayout) -> list[str]:
    """How the environment differs from the saved one, such as "vector_size is 8 instead of 4"."""
    now, saved = described_spaces(layout), content["spaces"]
    # How numbers are stored is no matter, nor whether actions are masked: the network sees the same.
    unseen = ("vector_dtype", "mask_size", "tells_of_games")
    return [
        f"{name} is {now[name]} instead of {saved[name]}"
        for name in now
        if name not in unseen and now[name] != saved[name]
    ]


def saved_layout(content: Mapping[str, Any], config: Config) -> UnrollLayout:
    """The layout of the run that saved this checkpoint; no environment is made."""
    spaces = content["spaces"].items()
    sizes: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in spaces}
    del sizes["frame_stack"]  # it follows from the options
    return unroll_layout(config, EnvironmentSpec(**sizes, can_snapshot=False))
