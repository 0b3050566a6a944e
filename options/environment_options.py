"""The options of the environment, and of games in real time."""

import json
from dataclasses import dataclass

from options.command_line import flag_words
from options.presets import CLASSIC, NATIVE, ONLY_NOFRAMESKIP, PRESETS, is_noframeskip
from options.rules import (
    IMPORTED_NAME,
    Need,
    Options,
    Rule,
    UsageError,
    between,
    flag_given,
    matching,
    one_of,
    option,
    switch,
    whole,
)

IN_REAL_TIME = flag_given("interaction", "realtime")
GAME_NUMBER = r"\w[\w.-]{0,31}"  # the name of a number that is known of a game
GAME_COLUMNS = ("agent_steps", "return", "length", "worker")  # of episodes.csv, before what the environment says
MAX_CHANNELS = 128  # of one observation; a limit of OpenCV
SIDE = "([1-9][0-9]?|[1-4][0-9]{2}|50[0-9]|51[0-2])"  # of a picture: 1 to 512


def is_json_object(text: str) -> bool:
    """Whether the text is a JSON object without NaN and infinities, which are no JSON."""
    try:
        return isinstance(json.loads(text, parse_constant=int), dict)  # int("NaN") is a ValueError
    except (ValueError, RecursionError):
        return False


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions(Options):
    topic = "Environment"

    env: str = option(
        "PongNoFrameskip-v4",
        matching(r"\w[\w/:.-]*", "be an id such as PongNoFrameskip-v4 or CartPole-v1"),
        "Environment: an Atari game under an id of this form, any id that Gymnasium can make, such as CartPole-v1, or "
        "module:id, which imports the module first. Other ids have defaults of their own: docs/environments.md.",
        aliases=("env_id",),
    )
    env_kwargs: str = option(
        "{}",
        Rule(str, """be a JSON object, such as '{"gravity": 9.8}', in single quotes""", is_json_object),
        "JSON object of arguments for the environment; not for games with a NoFrameskip id.",
    )
    env_wrapper: str | None = option(
        None,
        IMPORTED_NAME,
        "Function, as module:function, that takes the environment and returns the one to play; not for games with a "
        "NoFrameskip id.",
    )
    protocol: str = option(
        CLASSIC,
        one_of(*PRESETS["protocol"]),
        "Rules of training and tests, which set --noop_threshold, --episodic_life, --fire_on_reset, "
        "--repeat_action_probability, --full_action_space and --max_game_frames where they are not given: see "
        "docs/testing.md.",
    )
    skipped_frames: int = option(4, whole(1, 100), "Game frames per agent step, all with the same action (frame skip).")
    frames_stacked: int = option(4, whole(1, 64), "Number of latest frames in one observation (frame stack).")
    grayscaling_frames: bool = switch(True, "Observations in gray instead of colour.")
    frame_scale_resolution: str = option(
        "84,84",
        matching(f"native|{SIDE},{SIDE}", 'be "height,width", such as 84,84, both at most 512, or native'),
        'Size of the pictures that the agent sees, as "height,width"; native leaves them as they are (not for games '
        "with a NoFrameskip id).",
    )
    largest_pixel: int = option(
        0,
        whole(0, 2**31 - 1),
        "Largest value in the pictures of an environment; the agent sees it as 255. 0: as its observation space says.",
    )
    noop_threshold: int = option(
        30, whole(0, 1000), "Maximum of the random number of no-op frames at the start of a game. 0: none."
    )
    episodic_life: bool = switch(True, "A lost life ends the episode for the learner; the game goes on.")
    fire_on_reset: bool = switch(
        True,
        "Press FIRE at the start of an episode, in every game whose action 1 is FIRE. Without it, the agent has to.",
    )
    fire_on_life_loss: bool = switch(
        False,
        "With --noepisodic_life: press FIRE after a lost life, in every game whose action 1 is FIRE; tests always do. "
        "Never with --nofire_on_reset.",
        Need("--noepisodic_life", lambda c: not c.environment.episodic_life),
        flag_given("fire_on_reset"),
    )
    reward_clipping_method: str = option(
        "abs_one_sign",
        one_of("abs_one_sign", "abs_one_clamp", "soft_asymmetric", "none"),
        "Clipping of the rewards for the learner: to −1, 0 or 1 by their sign, to the range from −1 to 1, or "
        "softly (5·tanh(r/5), times 0.3 below 0). Reported returns are never clipped.",
    )
    repeat_action_probability: float = option(
        0.0, between(0, 1), "Sticky actions: probability to repeat the last action."
    )
    episode_info: str | None = option(
        None,
        matching(rf"{GAME_NUMBER}(,{GAME_NUMBER})*", "be names of at most 32 letters, such as success,stats.coins"),
        "Entries of an episode's last info that are reported of each game besides all of its plain numbers: names, "
        "with dots for nested ones; not for games with a NoFrameskip id.",
    )
    action_masks: bool = switch(
        True,
        "Never play an action that the environment's action mask leaves out, where it gives one: see "
        "docs/environments.md.",
    )
    full_action_space: bool = switch(
        False, "All 18 actions of the console in every game, instead of those that the game needs."
    )
    max_game_frames: int = option(108_000, whole(1, 10**9), "Game frames after which a game is cut off.")
    spread_starts: bool = switch(
        False,
        "Cut off the first episode of each environment at a random step. Otherwise, where all episodes have the same "
        "length, those of all environments begin in the same step. Not for games with a NoFrameskip id.",
    )
    interaction: str = option(
        "turns",
        one_of("turns", "asynchronous", "sequential", "realtime"),
        "Whether the game waits for an action (turns), or goes on: with a decision in every agent step (asynchronous), "
        "only after the action before took effect (sequential), or on a real clock (realtime).",
    )
    action_delay: int = option(
        0,
        whole(0),
        "With --interaction=asynchronous or sequential: game frames from the screen that an action is chosen from to "
        "the frame in which it takes effect.",
        flag_given("interaction", "asynchronous", "sequential"),
    )
    idle_action: str = option(
        "noop",
        one_of("noop", "repeat", "random"),
        "With --interaction other than turns: action of the frames for which none was chosen: no-op, the latest one "
        "again, or a random one.",
        Need("another --interaction than turns", lambda c: c.environment.interaction != "turns"),
    )

    @property
    def in_real_time(self) -> bool:
        return self.interaction == "realtime"

    @property
    def has_delay(self) -> bool:
        """Whether the game goes on for a known number of frames before an action takes effect."""
        return self.interaction in ("asynchronous", "sequential")

    @property
    def frames_per_step(self) -> int:
        """Game frames from one decision to the next; in real time at least as many."""
        sequential = self.interaction == "sequential"
        return max(self.skipped_frames, self.action_delay) if sequential else self.skipped_frames

    @property
    def keeps_resolution(self) -> bool:
        """Whether the agent sees pictures in their own size."""
        return self.frame_scale_resolution == NATIVE

    @property
    def resolution(self) -> tuple[int, int]:
        """(height, width) of the pictures that the agent sees, where they are scaled."""
        height, width = self.frame_scale_resolution.split(",")
        return int(height), int(width)

    def _check_together(self) -> None:
        if not self.grayscaling_frames and self.frames_stacked > MAX_CHANNELS // 3:
            raise UsageError(
                f"--frames_stacked={self.frames_stacked} is too many for frames in colour; at most "
                f"{MAX_CHANNELS // 3} with --nograyscaling_frames would be right."
            )
        if self.action_delay >= self.max_game_frames:
            raise UsageError(
                f"--action_delay={self.action_delay} is not shorter than a game (--max_game_frames="
                f"{self.max_game_frames}), so no action would take effect; at most 64 frames, a second, would be usual."
            )
        env = self.env
        if is_noframeskip(env):
            if self.keeps_resolution:
                raise UsageError(
                    f"--frame_scale_resolution={NATIVE} has no meaning for --env={env}; 210,160, the size of most "
                    "Atari screens, would be right."
                )
            return
        for name, value in ONLY_NOFRAMESKIP.items():
            if (wrong := getattr(self, name)) != value:
                (given,), (right,) = flag_words({name: wrong}), flag_words({name: value})
                raise UsageError(
                    f"{given} is only for Atari games whose id ends in NoFrameskip-v4, not for --env={env}; {right} "
                    "would be right."
                )


@dataclass(frozen=True, kw_only=True)
class RealtimeOptions(Options):
    topic = "Real time"

    fps: float = option(
        60.0,
        between(0, 100_000),
        "With --interaction=realtime: game frames, or steps of another environment, a second. 0, the default of other "
        "environments: their own render_fps, or 60 without one.",
        IN_REAL_TIME,
        aliases=("tick_rate",),
    )
    inference_processes: int = option(
        0,
        whole(0, 2000),
        "In real time: processes of each worker that choose actions. 0: enough for an action in every agent step, also "
        "when each inference takes as long as the longest so far.",
        IN_REAL_TIME,
    )
    stagger: str = option(
        "mean",
        one_of("none", "max", "mean"),
        "How inference processes take turns: not at all (none), or at intervals of the longest (max) or the mean "
        "inference time (mean), divided by their number.",
        IN_REAL_TIME,
    )
    inference_latency: str | None = option(
        None,
        matching(
            "(fixed|uniform|lognormal|measured):.+",
            "be fixed:TIME, uniform:LOW:HIGH, lognormal:MEAN:SIGMA or measured:TIMES",
        ),
        "In real time: milliseconds that an inference takes at least, such as fixed:50; a process that is done earlier "
        "waits.",
        IN_REAL_TIME,
    )
