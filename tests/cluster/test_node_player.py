"""A player on a node, without Ray: it plays one round for each request, with real workers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import flat_weights
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from cluster import node_player
from cluster.node_player import NodePlayer, PlayerSpec
from cluster.rounds import unpack_round
from option_flags import Config
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from tests.catch import make_catch
from tests.processes import spawned
from tests.training.catch_runs import CATCH
from workers import actors

CONFIG = Config.from_flags({**CATCH, "envs_per_worker": 4})
LAYOUT = make_unroll_layout(CONFIG, make_catch)
SPEC = PlayerSpec(CONFIG, make_catch, LAYOUT, resume_count=0, code={})


def weights() -> NDArray[Any]:
    return flat_weights(ActorCritic(CONFIG.network, LAYOUT, torch.float32)).numpy()


def with_player(use: Callable[[NodePlayer], Awaitable[None]]) -> None:
    """As in the actor: the player works in an event loop."""

    async def work() -> None:
        player = NodePlayer(SPEC, seed=1, workers=2)
        try:
            async with asyncio.timeout(60):
                await use(player)
        finally:
            player.close()

    asyncio.run(work())
    assert not spawned()


def rows_of(content: bytes) -> Rows:
    codec = UnrollCodec(LAYOUT, 0)
    blobs = unpack_round(content, LAYOUT.fingerprint)
    rows: Rows = np.empty((len(blobs), LAYOUT.nbytes), np.uint8)
    for row, blob in zip(rows, blobs, strict=True):
        codec.decode(bytes(blob), row)
    return rows


def versions_of(content: bytes) -> set[int]:
    return set(LAYOUT.array(rows_of(content), "weight_version").tolist())


@pytest.mark.slow
def test_one_round_is_played_for_each_request() -> None:
    async def use(player: NodePlayer) -> None:
        player.load_weights(3, weights())
        contents = await asyncio.gather(*(player.play_round() for _ in range(5)))
        assert [versions_of(content) for content in contents] == [{3}] * 5
        environments = {tuple(LAYOUT.array(rows_of(content), "environment_id").tolist()) for content in contents}
        assert environments <= {(0, 1, 2, 3), (4, 5, 6, 7)}
        assert player.figures() == {"restarts": 0, "notices": []}
        vector = torch.from_numpy(weights()).bfloat16().view(torch.int16)  # as they travel to save bandwidth
        player.load_weights(9, vector.numpy())
        assert versions_of(await player.play_round()) == {9}

    with_player(use)


@pytest.mark.slow
def test_an_error_of_the_pool_answers_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any) -> Any:
        pool = actors.make_pool(*arguments)

        def fail(timeout: float) -> None:
            raise RuntimeError("no pool today")

        monkeypatch.setattr(pool, "wait", fail)
        return pool

    monkeypatch.setattr(node_player, "make_pool", failing)

    async def use(player: NodePlayer) -> None:
        early = asyncio.create_task(player.play_round())
        await asyncio.sleep(0)
        player.load_weights(0, weights())
        for request in (early, player.play_round()):
            with pytest.raises(RuntimeError, match="no pool today"):
                await request

    with_player(use)
