"""A person plays in a window by the keyboard, and each game is recorded (--op_mode=play)."""

import itertools
import re
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from evaluation.film import FRAMES_PER_SECOND, Picture, Scene, film_format, score_text
from evaluation.parallel_games import evaluation_options, game_streams
from evaluation.recorded_games import RecordedGame, folder_for_games, write_game
from evaluation.show_games import Window
from machine.machine_setup import settle_seed
from machine.stop_signals import StopSignals
from option_flags import Config
from options.rules import UsageError
from reports.scores import game_name
from wrappers.environment import MakeEnvironment, as_observation, environment_spec

MOVEMENTS = {"Up": "UP", "Down": "DOWN", "Left": "LEFT", "Right": "RIGHT", "space": "FIRE"}  # by Tk's names of keys


class KeyWindow(Window):
    """A window that knows its latest picture, and the keys that are held."""

    picture: Picture

    def __init__(self, title: str) -> None:
        super().__init__(title)
        self.held: set[str] = set()
        self._root.bind("<KeyPress>", lambda event: self.held.add(event.keysym))
        self._root.bind("<KeyRelease>", lambda event: self.held.discard(event.keysym))


def play(config: Config, make_environment: MakeEnvironment) -> None:
    """Play game after game by the rules of a test, until the window is closed; write each of them to a file."""
    config, options = settle_seed(config), evaluation_options(config.environment)

    def watch(screen: NDArray[np.uint8], score: float) -> None:
        window.picture = scene.draw(screen, {"score": score_text(score), "keys": keys})
        window.show(window.picture, shown.frames_per_second)

    environment = make_environment(options, 0, watch)
    spec = environment_spec(environment)
    if spec.action_kind != "discrete":
        raise UsageError(f"--op_mode=play needs a choice between actions, which --env={options.env} has not.")
    shown = film_format(options.env, environment)
    scene = Scene(game_name(options.env), "close the window to end", stretched=shown.stretched)
    try:
        window = KeyWindow(options.env)
    except Exception as error:  # as in `show_in_window`
        raise UsageError(f"--op_mode=play needs a display, and a Python with tkinter ({error}).") from None
    with closing(window), closing(environment), StopSignals() as stop:
        folder, (choose, keys) = folder_for_games(config), keyboard(environment, window)
        take_finished_games = environment.get_wrapper_attr("take_finished_games")
        for number in itertools.count():
            seed, actions, over = game_streams((config.seed,), number)[0], [], False
            seen, _ = environment.reset(seed=seed)
            take_finished_games()  # drop a game that ended during the reset
            while window.is_open and not (over or stop.requested):
                mask = as_observation(seen).vector[spec.vector_size :]
                if (action := choose()) is None or (mask.size and not mask[action]):  # the game waits for a key
                    window.show(window.picture, Fraction(FRAMES_PER_SECOND))
                    continue
                actions.append(action)
                seen, _, terminated, truncated, _ = environment.step(action)
                over = terminated or truncated
            if actions:
                return_ = take_finished_games()[-1].return_ if over else None
                print(f"recorded  {write_game(folder, RecordedGame(options, seed, np.array(actions), return_))}")
            if not over:
                return


def keyboard(environment: gymnasium.Env[Any, Any], window: KeyWindow) -> tuple[Callable[[], int | None], str]:
    """What chooses the next action, and the names of its keys: arrows and space for positions of a joystick.

    Otherwise the keys 0 to 9 are the first ten actions, and without a newly pressed key there is none.
    """
    spec = environment_spec(environment)
    count, names = spec.action_count, spec.action_names
    positions = [set(re.findall("|".join(MOVEMENTS.values()), name)) for name in names]

    def by_joystick() -> int:
        held = {MOVEMENTS[key] for key in window.held & MOVEMENTS.keys()}
        return max(range(count), key=lambda action: len(positions[action]) if positions[action] <= held else -1)

    def by_number() -> int | None:
        pressed = [key for key in window.held if key.isdecimal() and int(key) < count]
        window.held.difference_update(pressed)
        return int(pressed[0]) if pressed else None

    if not names:
        return by_number, f"0 to {min(count, 10) - 1}"
    used = set().union(*positions)
    return by_joystick, " ".join(key for key, movement in MOVEMENTS.items() if movement in used)
