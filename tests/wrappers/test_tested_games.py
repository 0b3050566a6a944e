"""What --op_mode=test adds to a game: FIRE after a lost life, and a function that receives every frame."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from option_flags import EnvironmentOptions
from wrappers.atari import make_atari

BREAKOUT = EnvironmentOptions(
    env="BreakoutNoFrameskip-v4", episodic_life=False, fire_on_life_loss=True, frame_scale_resolution="210,160"
)


@pytest.mark.slow
def test_breakout_continues_after_a_lost_life() -> None:
    """Without FIRE the ball never comes back, and nothing happens until the frame limit."""
    for fire, ends in ((True, (True, False)), (False, (False, True))):
        environment = make_atari(replace(BREAKOUT, max_game_frames=4000, fire_on_life_loss=fire), 1)
        environment.reset()
        terminated = truncated = False
        while not (terminated or truncated):
            _, _, terminated, truncated, _ = environment.step(0)
        assert (terminated, truncated) == ends


@pytest.mark.slow
def test_a_spectator_sees_every_raw_frame_and_changes_nothing() -> None:
    seen: list[tuple[int, float]] = []
    options = replace(BREAKOUT, env="SpaceInvadersNoFrameskip-v4", reward_clipping_method="none")
    watched = make_atari(options, 3, lambda picture, score: seen.append((int(picture.sum()), score)))
    alone = make_atari(options, 3)
    rng = np.random.default_rng(0)
    assert (watched.reset()[0] == alone.reset()[0]).all()
    total = 0.0
    for _ in range(150):
        action = int(rng.integers(4))
        one, other = watched.step(action), alone.step(action)
        assert (one[0] == other[0]).all() and one[1:] == other[1:]
        total += float(one[1])
        if one[2]:
            break
    emulator: Any = watched.unwrapped
    assert len(seen) == emulator.ale.getEpisodeFrameNumber() + 1
    assert seen[-1][1] == total > 0
