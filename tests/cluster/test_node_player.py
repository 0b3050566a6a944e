"""A player on a node, without Ray: it plays one round for each request, with real workers."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import flat_weights, weight_count
from agents.network import make_network
from agents.spaces import make_unroll_layout
from cluster import node_player
from cluster.node_player import NodePlayer, PlayerSpec, why_not_playable
from cluster.played_code import played_code
from cluster.round_format import unpack_round
from option_flags import Config
from replay.row_layout import Rows
from replay.storage import UnrollCodec
from replay.unroll_layout import UnrollLayout
from tests.catch import make_catch
from tests.processes import spawned
from tests.training.catch_runs import CATCH

CONFIG = Config.from_flags({**CATCH, "envs_per_worker": 4})
LAYOUT = make_unroll_layout(CONFIG, make_catch)
SPEC = PlayerSpec(CONFIG, make_catch, LAYOUT, resume_count=0, code=played_code(CONFIG))


def weights() -> NDArray[Any]:
    return flat_weights(make_network(CONFIG.network, LAYOUT, torch.float32)).numpy()


@pytest.fixture
def player() -> Iterator[NodePlayer]:
    made = NodePlayer(SPEC, number=7, seed=1, workers=2)
    yield made
    made.close()
    assert not spawned()


def rows_of(content: bytes) -> Rows:
    codec = UnrollCodec(LAYOUT, 0)
    blobs = unpack_round(content, LAYOUT.fingerprint).blobs
    rows: Rows = np.empty((len(blobs), LAYOUT.nbytes), np.uint8)
    for row, blob in zip(rows, blobs, strict=True):
        codec.decode(bytes(blob), row)
    return rows


@pytest.mark.slow
def test_one_round_is_played_for_each_request(player: NodePlayer) -> None:
    player.load_weights(3, weights())
    contents = [request.result(60) for request in [player.request() for _ in range(5)]]
    rounds = [unpack_round(content, LAYOUT.fingerprint) for content in contents]
    assert [one.sequence for one in rounds] == [0, 1, 2, 3, 4]
    assert {one.player for one in rounds} == {7}
    assert {one.versions for one in rounds} == {(3, 3, 3, 3)}
    environments = {tuple(LAYOUT.array(rows_of(content), "environment_id").tolist()) for content in contents}
    assert environments <= {(0, 1, 2, 3), (4, 5, 6, 7)}
    assert player.figures() == {"restarts": 0, "notices": []}
    player.load_weights(9, weights())
    assert set(unpack_round(player.request().result(60), LAYOUT.fingerprint).versions) == {9}


@pytest.mark.slow
def test_weights_may_travel_as_bfloat16(player: NodePlayer) -> None:
    vector = torch.from_numpy(weights()).bfloat16().view(torch.int16)
    player.load_weights(0, vector.numpy())
    assert len(rows_of(player.request().result(60))) == 4


@pytest.mark.slow
def test_an_error_of_the_pool_answers_all_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: object) -> None:
        raise RuntimeError("no pool today")

    monkeypatch.setattr(node_player, "make_pool", failing)
    player = NodePlayer(SPEC, number=0, seed=1, workers=1)
    early = player.request()
    player.load_weights(0, weights())
    for request in (early, player.request()):
        assert_fails(request)
    player.close()


def assert_fails(request: "Future[bytes]") -> None:
    with pytest.raises(RuntimeError, match="no pool today"):
        request.result(60)


def test_another_layout_and_too_little_memory_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_not_playable(SPEC, workers=1) is None
    monkeypatch.setattr(node_player, "usable_memory", lambda: 100 << 20)
    problem = why_not_playable(SPEC, workers=3)
    assert problem is not None and "3 workers need" in problem
    other = PlayerSpec(CONFIG, make_catch, UnrollLayout(1, 1, (1, 1, 1), 1), 0, {})
    problem = why_not_playable(other, workers=1)
    assert problem is not None and "other observations or actions" in problem
    assert weight_count(make_network(CONFIG.network, LAYOUT, torch.float32)) == len(weights())
