"""The memory that a run will need, computed before it starts."""

from dataclasses import dataclass, replace

import numpy as np

from machine.capacity import PART_OF_FREE, check_processes, format_bytes, usable_memory
from option_flags import Config
from options.learning_options import ONCE
from options.rules import UsageError
from replay.row_layout import Rows
from replay.storage import BLOB_OVERHEAD, UnrollCodec
from replay.unroll_layout import UnrollLayout
from workers.randomness import random_action
from wrappers.environment import MakeEnvironment, as_observation

SAMPLED_STEPS = 300
# Compressed unrolls may need this many times the measured memory: a trained policy sees fuller screens than the random
# one of the sample, and memory that is freed and allocated again in other sizes is fragmented.
SAFETY = 1.5


@dataclass(frozen=True)
class ReplayMemory:
    """What full replays need, in bytes. It is an estimate if some of them are compressed."""

    unrolls: int  # in all replays
    in_replays: int
    in_transit: int  # in the workers' slots, in batches and as candidates
    has_others: bool  # whether there are replays besides queues
    compressed: bool

    @property
    def needed(self) -> int:
        return self.in_replays + self.in_transit

    def described(self) -> list[str]:
        """Lines for the header of the run; none for a run with queues only."""
        size = f"about {format_bytes(self.in_replays)} compressed" if self.compressed else format_bytes(self.in_replays)
        return [f"replays: {self.unrolls:,} unrolls, {size}"] if self.has_others else []

    def check(self, workers: int, games_each: int, learners: int = 1) -> None:
        """Refuse replays that do not fit into the memory beside the workers: an equal part of it for each learner."""
        memory = usable_memory() // learners
        free = memory - check_processes(workers, games_each, memory)
        room = PART_OF_FREE * free
        if self.needed <= room:
            return
        fitting = int((room - self.in_transit) / self.in_replays * self.unrolls)
        remedy = "a smaller --batch_size, --r_f_steps, --worker_count or --envs_per_worker"
        if fitting > 0:
            compression = ", or --use_replay_compression," if self.has_others and not self.compressed else ""
            remedy = f"capacities that add up to less than {fitting:,}{compression}"
        raise UsageError(
            f"--replay_parameters: {self.unrolls:,} unrolls, and those in the workers' slots and in batches, need "
            f"{format_bytes(self.needed)}, but {format_bytes(free)} of memory are free beside the workers; {remedy} "
            "would be right."
        )


def plan_memory(
    config: Config, layout: UnrollLayout, make_environment: MakeEnvironment, unrolls_in_slots: int
) -> ReplayMemory:
    """Computed from the sizes; the size of a compressed unroll is measured on a few steps of random play."""
    options, nbytes = config.replay, layout.nbytes
    entries = list(zip(options.replays, options.shares, strict=True))
    in_queues = sum(max(replay.capacity, share) for replay, share in entries if replay.type == "queue")
    if config.batch_uses != ONCE:
        in_queues += config.batch_uses.slots * sum(options.queue_shares)
    in_others = sum(max(replay.capacity, share) for replay, share in entries if replay.type != "queue")
    compressed = options.use_replay_compression and in_others > 0
    kept = nbytes
    if compressed:
        codec = UnrollCodec(layout, options.lz4_compression_level)
        blobs = [codec.encode(row) for row in played_at_random(config, layout, make_environment)]
        kept = int(SAFETY * sum(map(len, blobs)) / len(blobs)) + BLOB_OVERHEAD
    batches = 2 + (options.batches_ahead + 1 if options.caching else 0)
    # A replay that ranks copies its candidates.
    candidates = sum(replay.most_candidates(share) for replay, share in entries if replay.ranks)
    in_transit = (unrolls_in_slots + batches * options.batch_size + candidates) * nbytes
    in_replays = in_queues * nbytes + in_others * kept
    return ReplayMemory(in_queues + in_others, in_replays, in_transit, in_others > 0, compressed)


def played_at_random(config: Config, layout: UnrollLayout, make_environment: MakeEnvironment) -> Rows:
    """Unrolls `[n, nbytes]` with pictures of random play; the other fields are noise, which does not compress."""
    rng = np.random.default_rng(0)
    rows: Rows = rng.integers(0, 256, (-(-SAMPLED_STEPS // layout.unroll_length), layout.nbytes), np.uint8)
    if not layout.has_pictures:
        return rows
    # In real time, the frames look the same, but they are not returned by steps.
    environment = make_environment(replace(config.environment, interaction="turns"), 0)
    seen = as_observation(environment.reset()[0])
    for frames in layout.array(rows, "frames"):
        frames[: layout.frame_stack] = seen.frame
        for t in range(layout.unroll_length):
            action = random_action(layout, rng, seen.vector[layout.vector_size :])
            observation, _, terminated, truncated, _ = environment.step(action if action.shape else int(action))
            seen = as_observation(environment.reset()[0] if terminated or truncated else observation)
            frames[layout.frame_stack + t] = seen.frame
    environment.close()
    return rows
