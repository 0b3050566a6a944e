"""What becomes of the frames of a game."""

from dataclasses import replace

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from option_flags import EnvironmentOptions
from tests.wrappers.scripted_game import Moment, ScriptedGame, as_agent_sees
from wrappers.atari import make_atari
from wrappers.emulator import Frame
from wrappers.scaling import AleDownscale


def shares(size: int, new_size: int) -> npt.NDArray[np.float64]:
    """[new_size, size]: how much of each old pixel lies in each new one."""
    edges = np.linspace(0, size, new_size + 1)
    overlap = np.minimum(edges[1:, None], np.arange(1, size + 1)) - np.maximum(edges[:-1, None], np.arange(size))
    return np.asarray(np.clip(overlap, 0, None) * new_size / size)


@pytest.mark.parametrize("grayscale", [False, True])
@pytest.mark.parametrize("resolution", [(84, 84), (105, 80), (50, 130)])
def test_new_pixels_are_means_of_the_area_they_cover(resolution: tuple[int, int], grayscale: bool) -> None:
    options = EnvironmentOptions(
        env="SpaceInvadersNoFrameskip-v4", grayscaling_frames=grayscale, skipped_frames=2, noop_threshold=0
    )
    sizes = f"{resolution[0]},{resolution[1]}", "210,160"
    env, unscaled = (make_atari(replace(options, frame_scale_resolution=size), 0) for size in sizes)
    env.reset()
    unscaled.reset()
    resized, screen = env.step(0)[0], unscaled.step(0)[0]
    rows, columns = shares(210, resolution[0]), shares(160, resolution[1])
    means = np.einsum("ah,hw...,bw->ab...", rows, screen.astype(float), columns, optimize=True)
    assert resized.shape == env.observation_space.shape == (*resolution, *screen.shape[2:])
    assert np.abs(resized - means).max() <= 1
    assert resized.std() > 10


def screens_of_many_kinds() -> list[npt.NDArray[np.uint8]]:
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, (20, 210, 160), dtype=np.uint8)
    black_or_white = generator.integers(0, 2, (20, 210, 160), dtype=np.uint8) * np.uint8(255)
    plain = [np.full((210, 160), value, np.uint8) for value in range(256)]
    return [*noise, *black_or_white, *plain]


@pytest.mark.slow
def test_means_at_the_usual_size_are_exact_and_equal_opencvs_except_for_halves() -> None:
    downscale, small, halves = AleDownscale(), np.empty((84, 84), np.uint8), 0
    for screen in screens_of_many_kinds():
        downscale.shrink(screen, small)
        # Cut so finely that each area holds 5 × 40 whole pixels.
        fine = np.repeat(np.repeat(screen, 2, axis=0), 21, axis=1)
        sums = fine.reshape(84, 5, 84, 40).sum(axis=(1, 3), dtype=np.int64)
        assert np.array_equal(small, (sums + 100) // 200)
        between = sums % 200 == 100
        opencvs = cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA)
        assert np.array_equal(small[~between], opencvs[~between])
        halves += int(between.sum())
    assert halves > 100


@pytest.mark.parametrize(("skip", "frames"), [(1, [1]), (2, [1, 2]), (4, [3, 4]), (6, [5, 6])])
def test_only_the_screens_of_the_last_two_frames_are_copied(skip: int, frames: list[int]) -> None:
    copied: list[int] = []

    class LoggingGame(ScriptedGame):
        def screen(self, out: Frame) -> None:
            copied.append(self.moment)
            super().screen(out)

    env = as_agent_sees(LoggingGame([Moment()] * 6), skipped_frames=skip)
    env.reset()
    copied.clear()
    env.step(0)
    assert copied == frames


def test_observations_belong_to_the_space() -> None:
    env = make_atari(EnvironmentOptions(grayscaling_frames=False, frame_scale_resolution="42,50"), seed=0)
    assert env.observation_space.shape == (42, 50, 3)
    assert env.observation_space.contains(env.reset()[0])
    assert all(env.observation_space.contains(env.step(2)[0]) for _ in range(30))
