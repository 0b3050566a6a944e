"""Measure the memory and the time of replays with unrolls of real games, raw and compressed.

    python -m tests.benchmarks.replays [--games Pong Breakout Seaquest] [--checkpoint Pong=results/<run>]
        [--capacities 1000 10000 100000] [--level 0] [--unrolls 800] [--rounds 15] [--memory 0.8] [--json FILE]

Every game is played with the platform's own wrappers and rollouts, by an untrained network or by the policy of a
checkpoint. The unrolls fill each storage over and over, in random order.

    B/unroll   bytes in the storage; /frames: divided by the bytes of the frames alone
    RSS        growth of this process, per unroll
    adds/s     while the storage fills for the first time, one thread
    draws/s    draws of 4 unrolls
    of learn   time of such a draw divided by the time of learning from 4 unrolls: half a real update of the nature
               network on 8 such unrolls, one thread. Draws and updates take turns, and medians are compared, so that a
               busy machine slows both.
"""

import argparse
import ctypes
import gc
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cv2
import numpy as np
import psutil
import torch

from agents.learner import Learner
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from machine.capacity import usable_memory
from machine.device import choose_precision
from option_flags import Config
from replay.mix import Batch
from replay.row_layout import Rows
from replay.storage import Storage, UnrollCodec
from replay.unroll_layout import UnrollLayout
from run_files.checkpoint import find_checkpoint
from tests.benchmarks.recording import make_rollout, record
from training.make_replays import make_storage
from wrappers.atari import make_atari

# Bytes of memory for one blob besides its content: the header of a bytes object (33), rounding and header of malloc
# (16), an entry of the list (8, and up to an eighth more that the list reserves).
BLOB_OVERHEAD = 64
SHARE, BATCH = 4, 8
DRAWS_A_ROUND = 50
ENVIRONMENTS = 8
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    game: str
    policy: str
    capacity: int
    storage: str
    bytes_per_unroll: float
    of_frames: float
    rss_per_unroll: float
    adds_per_second: float
    draws_per_second: float
    drawing_of_learning: float
    learning_ms_per_unroll: float

    def line(self) -> str:
        return (
            f"{self.game:<10}{self.policy:<9}{self.capacity:>8,}  {self.storage:<12}{self.bytes_per_unroll:>9,.0f}"
            f"{self.of_frames:>8.3f}{self.rss_per_unroll:>10,.0f}{self.adds_per_second:>10,.0f}"
            f"{self.draws_per_second:>10,.0f}{self.drawing_of_learning:>10.2%}{self.learning_ms_per_unroll:>8.2f}"
        )


TITLE = (
    f"{'game':<10}{'policy':<9}{'capacity':>8}  {'storage':<12}{'B/unroll':>9}{'/frames':>8}{'RSS':>10}"
    f"{'adds/s':>10}{'draws/s':>10}{'of learn':>10}{'ms each':>8}"
)


@dataclass(frozen=True)
class Played:
    """Unrolls of one game, and the learner that learns from them."""

    game: str
    policy: str
    config: Config
    layout: UnrollLayout
    rows: Rows
    learner: Learner


def play(game: str, run: str | None, unrolls: int) -> Played:
    options = {} if run is None else find_checkpoint(run).options
    config = Config.from_flags({**options, "env": f"{game}NoFrameskip-v4", "r_f_steps": 20})
    layout = make_unroll_layout(config, make_atari)
    precision = choose_precision("auto", CPU)
    torch.manual_seed(0)
    network = ActorCritic(config.network, layout, precision)
    if run is not None:
        network.load_saved(find_checkpoint(run).content["learner"]["network"])
    rows = record(make_rollout(config, layout, network, ENVIRONMENTS), layout, ENVIRONMENTS, unrolls)
    nature = ActorCritic(Config().network, layout, precision)
    learner = Learner(nature, layout, config.loss, config.optimizer, 10**6, CPU)
    return Played(game, "random" if run is None else "trained", config, layout, rows, learner)


def resident() -> int:
    """Bytes of this process, after it has returned freed memory to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


def fill(storage: Storage, played: Played, order: Sequence[int]) -> float:
    """Fill the storage; return the seconds."""
    start = time.perf_counter()
    for place in range(storage.capacity):
        storage.put(place, played.rows[order[place % len(order)]])
    return time.perf_counter() - start


def in_turns(storage: Storage, played: Played, rounds: int, rng: np.random.Generator) -> tuple[float, float]:
    """Median seconds of a draw, and of learning from as many unrolls."""
    rows = torch.from_numpy(played.rows[:BATCH].copy())
    batch = Batch(rows, np.arange(BATCH) >= SHARE)
    drawing, learning = [], []
    for round_ in range(rounds + 1):
        draws = rng.integers(0, storage.capacity, (DRAWS_A_ROUND, SHARE))
        begun = time.perf_counter()
        for indices in draws:
            storage.copy_to(indices, batch.rows.numpy()[:SHARE])
        drawn = time.perf_counter()
        played.learner.update(batch)
        learned = time.perf_counter()
        if round_ > 0:  # the first round warms up
            drawing.append((drawn - begun) / DRAWS_A_ROUND)
            learning.append((learned - drawn) * SHARE / BATCH)
    return statistics.median(drawing), statistics.median(learning)


def needed(played: Played, capacity: int, compressed: bool, level: int) -> float:
    """An upper estimate of the bytes of a full storage."""
    if not compressed:
        return capacity * played.layout.nbytes
    codec = UnrollCodec(played.layout, level)
    return 1.2 * capacity * statistics.mean(len(codec.encode(row)) + BLOB_OVERHEAD for row in played.rows[::10])


def measure(played: Played, capacity: int, compressed: bool, level: int, rounds: int) -> Result:
    options = played.config.replace_flags(use_replay_compression=compressed, lz4_compression_level=level).replay
    rng = np.random.default_rng(0)
    order = rng.permutation(len(played.rows)).tolist()
    before = resident()
    storage = make_storage(options, capacity, played.layout)
    filling = fill(storage, played, order)
    grown = resident() - before
    drawing, learning = in_turns(storage, played, rounds, rng)
    kept = storage.state_dict()
    held = kept["rows"].nbytes if "rows" in kept else sum(len(blob) + BLOB_OVERHEAD for blob in kept["blobs"])
    return Result(
        game=played.game,
        policy=played.policy,
        capacity=capacity,
        storage=f"lz4, {level}" if compressed else "raw",
        bytes_per_unroll=held / capacity,
        of_frames=held / capacity / played.layout.by_name["frames"].nbytes,
        rss_per_unroll=grown / capacity,
        adds_per_second=capacity / filling,
        draws_per_second=1 / drawing,
        drawing_of_learning=drawing / learning,
        learning_ms_per_unroll=1e3 * learning / SHARE,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=["Pong", "Breakout", "Seaquest"], metavar="GAME")
    parser.add_argument("--checkpoint", action="append", default=[], metavar="GAME=RUN", help="repeat for more games")
    parser.add_argument("--capacities", nargs="+", type=int, default=[1_000, 10_000, 100_000], metavar="UNROLLS")
    parser.add_argument("--level", type=int, default=0, choices=range(13), help="lz4_compression_level")
    parser.add_argument("--unrolls", type=int, default=800, help="unrolls to play of each game")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--memory", type=float, default=0.8, help="fraction of the free memory to use at most")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    cv2.setNumThreads(1)
    runs = dict(word.split("=", 1) for word in arguments.checkpoint)
    results: list[Result] = []
    print(TITLE)
    for game in arguments.games:
        played = play(game, runs.get(game), arguments.unrolls)
        for capacity in arguments.capacities:
            for compressed in (False, True):
                size = needed(played, capacity, compressed, arguments.level)
                if size > arguments.memory * usable_memory():
                    print(f"{game} {capacity:,} {'lz4' if compressed else 'raw'}: {size / 2**30:.1f} GiB, left out")
                    continue
                results.append(measure(played, capacity, compressed, arguments.level, arguments.rounds))
                print(results[-1].line(), flush=True)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([asdict(result) for result in results], indent=2) + "\n")


if __name__ == "__main__":
    main()
