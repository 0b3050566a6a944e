"""Makes Atari environments: the emulator and its chain of wrappers."""

import difflib
import re

import ale_py
import gymnasium
from gymnasium.envs.registration import EnvSpec

from option_flags import EnvironmentOptions
from options.rules import UsageError
from wrappers.atari_episodes import ClipReward, EpisodicLife, FireOnLifeLoss, FireOnReset, ScoreKeeper
from wrappers.atari_frames import FrameSkip, NoopStart, Resize, StickyActions
from wrappers.delayed_actions import DelayedActions
from wrappers.emulator import AtariWrapper, Emulator, Frame
from wrappers.environment import Watch
from wrappers.films import FilmFrames
from wrappers.frame_stack import FrameStack
from wrappers.realtime_game import RealtimeGame

ID_ENDING = "NoFrameskip-v4"
WITHOUT_NOOP = {"backgammon", "video_checkers"}  # board games in which every action is a move

gymnasium.register_envs(ale_py)


def make_atari(options: EnvironmentOptions, seed: int, watch: Watch | None = None) -> AtariWrapper:
    """Make the game of `options.env` with all wrappers, in the order of the lines below, innermost first.

    Observations are uint8 [frames_stacked, channels, height, width], with 1 channel, or 3 in colour. A game in real
    time has its own wrapper in place of those that step the game or its observations: see `RealtimeGame`.
    In addition to gymnasium's interface there are `snapshot` and `restore`, and `get_wrapper_attr` finds
    `action_meanings` and `take_finished_games`. `watch` is called with every raw frame, in colour.
    """
    check_atari(options)
    emulator = Emulator(
        _games()[options.env],
        seed,
        grayscale=options.grayscaling_frames,
        max_game_frames=options.max_game_frames,
        full_action_space=options.full_action_space,
    )
    env: gymnasium.Env[Frame, int] = emulator
    if watch is not None:
        env = FilmFrames(env, watch)
    if options.repeat_action_probability > 0:
        env = StickyActions(env, options.repeat_action_probability)
    if options.noop_threshold > 0:
        env = NoopStart(env, options.noop_threshold)
    if options.interaction == "realtime":
        return RealtimeGame(ScoreKeeper(env, options.skipped_frames), options)
    if options.interaction != "turns":
        env = DelayedActions(env, options)
    env = FrameSkip(env, options.frames_per_step)
    if options.resolution != emulator.screen_shape[:2]:
        env = Resize(env, options.resolution)
    env = ScoreKeeper(env)
    if options.episodic_life:
        env = EpisodicLife(env)
    if emulator.has_fire and options.fire_on_reset:
        if options.fire_on_life_loss and not options.episodic_life:
            env = FireOnLifeLoss(env)
        env = FireOnReset(env)
    if options.reward_clipping_method != "none":
        env = ClipReward(env, options.reward_clipping_method)
    return FrameStack(env, options.frames_stacked)


def atari_ids() -> list[str]:
    """The ids of all games that `make_atari` can make."""
    return sorted(_games())


def _games() -> dict[str, str]:
    """The games of ALE: id → name of the game's file. Gymnasium has an id of this form for the older games only."""
    ids = {
        name.removeprefix("ALE/"): spec.kwargs["game"] for name, spec in gymnasium.registry.items() if _is_game(spec)
    }
    return {re.sub(r"-v\d+$", ID_ENDING, name): game for name, game in ids.items() if game not in WITHOUT_NOOP}


def _is_game(spec: EnvSpec) -> bool:
    return spec.namespace == "ALE" and spec.entry_point == "ale_py.env:AtariEnv"


def check_atari(options: EnvironmentOptions) -> None:
    """Raise UsageError if `make_atari` cannot make the game."""
    known = atari_ids()
    if options.env in known:
        return
    # Compared without the prefixes and endings of all kinds of ids, which would make all names look similar.
    name = re.sub(r"^ale/|(noframeskip|deterministic)?(-ram)?(-?v\d+)?$", "", options.env.lower())
    games = {game.removesuffix(ID_ENDING).lower(): game for game in known}
    closest = [games[match] for match in difflib.get_close_matches(name, games, n=3)]
    hint = f"the closest: {', '.join(closest)}" if closest else "such as PongNoFrameskip-v4"
    raise UsageError(f"--env must be an Atari game whose id ends in {ID_ENDING} ({hint}), not {options.env!r}.")
