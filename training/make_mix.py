"""The replays of `--replay_parameters`, each with its storage, its random generator and its way to rank."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch

from agents.learner import Learner
from agents.network import ActorCritic
from agents.ranking import Ranking
from option_flags import Config, ReplayOptions
from replay.attentive import AttentiveReplay
from replay.background_mix import BackgroundMix
from replay.compression import UnrollCodec
from replay.elite import EliteReplay
from replay.mix import BatchMix, Mix
from replay.protocol import Replay
from replay.queue import QueueReplay
from replay.standard import StandardReplay
from replay.storage import CompressedStorage, RawStorage, Storage
from replay.unroll_layout import UnrollLayout
from training.resume import Resume
from workers.random_streams import stream_of


def make_mix(config: Config, layout: UnrollLayout, resume: Resume, learner: Learner) -> Mix:
    """The mix of all replays; with `--caching` one that works in the background."""
    ahead = config.replay.batches_ahead
    # In the background candidates are ranked by a copy, which no update changes on the way.
    network = deepcopy(learner.network) if ahead else learner.network
    seed = stream_of("replays", config.seed, resume.count)
    replays = make_replays(config.replay, layout, seed, network, resume.planned_updates)
    mix = BatchMix(replays, layout, pin_memory=learner.device.type == "cuda")
    if not ahead:
        return mix
    shares = zip(config.replay.replays, config.replay.shares, strict=True)
    ranks = any(entry.most_candidates(share) > share for entry, share in shares)

    def look() -> int:
        if ranks:
            network.load_state_dict(learner.network.state_dict())
        return learner.updates

    return BackgroundMix(mix, ahead, look, uploader(learner.device), learner.device)


def uploader(device: torch.device) -> Callable[[torch.Tensor], torch.Tensor | None]:
    """Takes batches to the device beside what goes on there; None where the learner computes in ordinary memory."""
    if device.type != "cuda":
        return lambda rows: None
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def upload(rows: torch.Tensor) -> torch.Tensor:
        with torch.cuda.stream(stream):
            uploaded = rows.to(device, non_blocking=True)
        stream.synchronize()
        uploaded.record_stream(torch.cuda.default_stream(device))  # who learns from it there may be behind with that
        return uploaded

    return upload


def make_replays(
    options: ReplayOptions,
    layout: UnrollLayout,
    seed: np.random.SeedSequence,
    network: ActorCritic,
    planned_updates: int,
) -> list[Replay]:
    """`network` is the one that candidates are ranked by; λ falls over `planned_updates`."""
    replays: list[Replay] = []
    children = seed.spawn(len(options.replays))
    for entry, share, fill, child in zip(
        options.replays, options.shares, options.warmup_unrolls, children, strict=True
    ):
        if entry.type == "queue":
            replays.append(QueueReplay(entry.capacity, share, layout.nbytes))
            continue
        storage, rng = make_storage(options, entry.capacity, layout), np.random.default_rng(child)
        if entry.type == "standard":
            replays.append(StandardReplay(storage, share, fill, rng))
            continue
        ranking = Ranking(network, layout, entry)
        if entry.type == "attentive":
            nearness = ranking.nearness
            replays.append(AttentiveReplay(storage, share, fill, rng, entry, planned_updates, layout, nearness))
        else:
            drift = ranking.drift
            replays.append(EliteReplay(storage, share, fill, rng, entry, planned_updates, layout.nbytes, drift))
    return replays


def make_storage(options: ReplayOptions, capacity: int, layout: UnrollLayout) -> Storage:
    """Where a replay that is no queue keeps its unrolls."""
    if options.use_replay_compression:
        return CompressedStorage(capacity, UnrollCodec(layout, options.lz4_compression_level))
    return RawStorage(capacity, layout.nbytes)
