"""The fields of an unroll: names, shapes and dtypes. An unroll is one contiguous row of bytes.

Shared-memory slots, replay storage and batches are all arrays of such rows, so moving an unroll is one copy of bytes.
State t of an unroll (t = 0..T) is the stack of frames t..t+S-1. The first S frames are the stack of state 0 as the
worker saw it; each step adds one frame. The part of an observation that is no picture is a vector, one for each state.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from replay.row_layout import Declared, RowLayout

# One of n actions; one choice for each of several factors; real numbers from a normal distribution for each dimension;
# choices and then real numbers.
ActionKind = Literal["discrete", "product", "gaussian", "mixed"]

# Limits of what an environment may have.
MOST_CHOICES = 10_000  # numbers that describe a policy in one state
MOST_NUMBERS = 10_000  # of a vector
GAME_INFO_BYTES = 1024  # room for what the environment says of the games that end in one unroll


@dataclass(frozen=True, kw_only=True)
class Spaces:
    """The observations and actions of an environment."""

    frame_shape: tuple[int, ...]  # [C, H, W]; (0, 0, 0) without a picture
    vector_size: int = 0  # numbers of an observation besides the picture
    one_hot_size: int = 0  # how many of them, the last ones, are 0 or 1 and need no normalisation
    mask_size: int = 0  # choices of an action mask, which vectors hold after these numbers; 0: no masks
    vector_dtype: str = "float32"  # in which unrolls store vectors; one that holds all of them exactly
    action_kind: ActionKind = "discrete"
    action_sizes: tuple[int, ...]  # the choices of each factor, one factor if it is discrete; a 0 for a real number
    action_names: tuple[str, ...] = ()  # of an Atari game's actions, such as UPFIRE; of the parts of composite actions
    tells_of_games: bool = False  # it may say more of a finished game than its return and length

    @property
    def spaces(self) -> dict[str, Any]:
        """All of this by name."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(Spaces)}

    @property
    def has_pictures(self) -> bool:
        return self.frame_shape[0] > 0

    @property
    def vector_length(self) -> int:
        """The length of a vector: the numbers of an observation, then its action mask."""
        return self.vector_size + self.mask_size

    @property
    def action_count(self) -> int:
        """The numbers that describe a policy in one state: a logit for each choice, or means and deviations."""
        return sum(self.action_sizes) + 2 * self.action_sizes.count(0)

    @property
    def action_shape(self) -> tuple[int, ...]:
        """The shape of one action: `()` for a discrete one, else one number for each factor or dimension."""
        return () if self.action_kind == "discrete" else (len(self.action_sizes),)

    @property
    def action_dtype(self) -> str:
        return "float32" if self.action_kind in ("gaussian", "mixed") else "int32"

    @property
    def _parts(self) -> list[tuple[str, int]]:
        """Each factor of an action with its number of choices, 0 for a real number."""
        names = self.action_names or map(str, range(len(self.action_sizes)))
        return list(zip(names, self.action_sizes, strict=True))

    @property
    def choice_names(self) -> list[str]:
        """All choices of all factors, such as "arm.grip: 1"; of discrete actions, their names or numbers."""
        if self.action_kind == "discrete":
            return list(self.action_names or map(str, range(self.action_count)))
        return [f"{name}: {choice}" for name, size in self._parts for choice in range(size)]

    @property
    def number_names(self) -> list[str]:
        """The real numbers of an action."""
        return [] if self.action_kind == "discrete" else [name for name, size in self._parts if size == 0]

    @property
    def no_action(self) -> NDArray[Any]:
        """What stands for the action before the first one of an episode: -1 for a choice, 0 for a real number."""
        return np.where(self.action_sizes, -1, 0).astype(self.action_dtype).reshape(self.action_shape)


@dataclass(frozen=True)
class UnrollLayout(Spaces, RowLayout):
    """The layout of one unroll of T steps in an environment with such observations and actions."""

    unroll_length: int
    frame_stack: int  # 0: observations without a picture
    lstm_size: int = 0  # 0: a network without memory
    feature_size: int = 0  # 0: no replay ranks by stored features
    delayed_actions: bool = False  # the game does not wait: an action takes effect some frames after its decision
    real_time: bool = False  # frames are played by the clock, and decisions made by inference processes
    explores: bool = False  # some environments hold random actions now and then

    @cached_property
    def declared(self) -> Sequence[Declared]:  # type: ignore[override]
        steps = self.unroll_length
        fields: list[Declared] = [
            ("frames", (steps + self.frame_stack, *self.frame_shape), "uint8"),
            ("actions", (steps, *self.action_shape), self.action_dtype),
            ("rewards", (steps,), "float32"),  # clipped; with delayed actions, while the action was in effect
            ("dones", (steps,), "uint8"),  # state t+1 starts an episode: game over, time limit or a lost life
            ("bootstraps", (steps,), "float32"),  # value of the final state at a time limit, 0 elsewhere
            ("behaviour_logits", (steps, self.action_count), "float32"),
            ("values", (steps,), "float32"),  # V(x_t) by the acting policy
            ("features", (steps, self.feature_size), "float16"),  # of the acting policy, projected
            ("game_returns", (steps,), "float32"),  # of the full game that ended here, unclipped
            ("game_lengths", (steps,), "int32"),  # in agent steps; 0 where no game ended
            ("first_lstm_state", (2, self.lstm_size), "float32"),  # h and c before state 0
            ("first_action", self.action_shape, self.action_dtype),  # before state 0; or `no_action`
            ("first_reward", (), "float32"),  # the reward before state 0
            ("weight_version", (), "int64"),
            ("environment_id", (), "int32"),
        ]
        if self.explores:
            fields.append(("held", (steps,), "uint8"))  # the action was not chosen by the policy
        if self.tells_of_games:
            fields.append(("game_info", (GAME_INFO_BYTES,), "uint8"))  # of the games that ended, as JSON, then zeros
        if self.vector_length:
            fields.append(("vectors", (steps + 1, self.vector_length), self.vector_dtype))  # float32 everywhere else
        if self.delayed_actions:
            fields += [
                ("valid", (steps,), "uint8"),  # the action took effect; the fields of other steps mean nothing
                ("ended", (steps,), "uint8"),  # the episode ended, or was cut off, while the action was in effect
                ("durations", (steps,), "float32"),  # from its effect to the next one's, in units of --skipped_frames
                ("ages", (steps,), "int32"),  # frames from the screen of the decision to the effect
                ("seen_rewards", (steps,), "float32"),  # clipped reward from the decision to the next one
                ("played_frames", (), "int32"),  # frames of these steps, and how many of them played the idle action
                ("idle_frames", (), "int32"),
            ]
        if self.real_time:
            fields += [
                ("inference_times", (steps,), "float32"),  # milliseconds from the observation to the decision
                ("missed_frames", (), "int32"),  # frames of these steps that were played after the next one was due
                ("dropped_unrolls", (), "int32"),  # of this game, since the unroll before: no slot was free
            ]
        return fields


def add_game_info(field: NDArray[np.uint8], info: Mapping[str, float]) -> None:
    """Add what is said of a game to a `game_info`. Where it has no room, it loses what was said of the first games."""
    games = [*read_game_info(field), info]
    while len(text := json.dumps(games).encode()) > len(field):
        del games[0]
    field[:] = np.frombuffer(text.ljust(len(field), b"\0"), np.uint8)


def read_game_info(field: NDArray[np.uint8]) -> list[dict[str, float]]:
    """What is said of the games that ended in an unroll, in their order."""
    text = field.tobytes().rstrip(b"\0")
    games: list[dict[str, float]] = json.loads(text) if text else []
    return games
