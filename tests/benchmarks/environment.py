"""Compare the cost of an agent step in our wrappers, in ALE without wrappers, and in ale-py's vector environment.

    python -m tests.benchmarks.environment [--env PongNoFrameskip-v4] [--steps 2000] [--rounds 5]

All use the same preprocessing (four frames a step, gray, 84x84) with random actions on one core, in turns, so
that a busy machine slows all of them. The ratios compare times within a round: 1.10 is 10% slower.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import ale_py
import cv2
import gymnasium
import numpy as np
import numpy.typing as npt
from ale_py import roms

from option_flags import EnvironmentOptions
from wrappers.atari import make_atari
from wrappers.emulator import atari_games
from wrappers.scaling import AleDownscale

SKIP, SIDE, STACK, NOOPS = 4, 84, 4, 30
WIDTH = 8
Actions = npt.NDArray[np.int64]


def by_hand(game: str) -> Callable[[Actions], None]:
    """The emulator and the resizing alone: no stack, no lives, no rewards, no random starts."""
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(str(roms.get_rom_path(game)))
    action_set = [action.value for action in ale.getMinimalActionSet()]
    earlier, latest = np.empty((2, *ale.getScreenDims()), np.uint8)
    frame, downscale = np.empty((SIDE, SIDE), np.uint8), AleDownscale()

    def play(actions: Actions) -> None:
        for action in actions.tolist():
            for _ in range(SKIP - 1):
                ale.act(action_set[action])
            ale.getScreenGrayscale(earlier)
            ale.act(action_set[action])
            ale.getScreenGrayscale(latest)
            np.maximum(earlier, latest, out=latest)
            downscale.shrink(latest, frame)
            if ale.game_over():
                ale.reset_game()

    return play


def our_chain(options: EnvironmentOptions) -> Callable[[Actions], None]:
    env = make_atari(options, seed=0)
    env.reset()

    def play(actions: Actions) -> None:
        for action in actions.tolist():
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return play


def vector_env(game: str, width: int) -> Callable[[Actions], None]:
    """ale-py's environment with one thread. More games share the cost of handing over to that thread."""
    env = ale_py.AtariVectorEnv(
        game,
        num_envs=width,
        num_threads=1,
        img_height=SIDE,
        img_width=SIDE,
        stack_num=STACK,
        frameskip=SKIP,
        noop_max=NOOPS,
        episodic_life=True,
    )
    env.reset(seed=0)

    def play(actions: Actions) -> None:
        for action in actions.reshape(-1, width):
            env.step(action)

    return play


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="PongNoFrameskip-v4", choices=atari_games(), metavar="ID")
    parser.add_argument("--steps", type=int, default=2000, help="agent steps of each environment in a round")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    steps = -(-arguments.steps // WIDTH) * WIDTH

    cv2.setNumThreads(1)  # as the chain does in a worker: one core for all
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    game = gymnasium.registry[arguments.env].kwargs["game"]
    players = {
        "ALE by hand": by_hand(game),
        "our chain": our_chain(EnvironmentOptions(env=arguments.env)),
        "AtariVectorEnv, 1 game": vector_env(game, 1),
        f"AtariVectorEnv, {WIDTH} games": vector_env(game, WIDTH),
    }
    ale = ale_py.ALEInterface()
    ale.loadROM(str(roms.get_rom_path(game)))
    action_count = len(ale.getMinimalActionSet())

    generator = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {name: [] for name in players}
    for round_ in range(arguments.rounds + 1):
        actions = generator.integers(0, action_count, steps)
        for name, play in players.items():
            start = time.perf_counter()
            play(actions)
            if round_ > 0:  # the first round warms up
                seconds[name].append(time.perf_counter() - start)

    print(f"{arguments.env}, {arguments.rounds} rounds of {steps} agent steps; medians")
    for name, times in seconds.items():
        print(f"  {name:<24}{steps / statistics.median(times):8.0f} agent steps/s")
    ours = seconds.pop("our chain")
    for other, times in seconds.items():
        ratio = statistics.median(our / their for our, their in zip(ours, times, strict=True))
        print(f"  our chain takes {ratio:.3f} of the time of {other}")


if __name__ == "__main__":
    main()
