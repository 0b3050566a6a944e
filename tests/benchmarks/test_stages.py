"""The stages that the throughput benchmarks time do their work; no test checks their speed."""

import numpy as np
import pytest
import torch

from option_flags import Config
from tests.benchmarks.drain import DRAIN, LEARN, MIX, measure_drain
from tests.benchmarks.replay_stages import replay_stages
from tests.benchmarks.stages import (
    Bench,
    bare_inference,
    environment_stages,
    inference_stages,
    learning_stages,
    random_observations,
    weight_stages,
    worker_stages,
)
from tests.benchmarks.timing import Stage, in_turns, one_core

pytestmark = pytest.mark.slow

SMALL = Config.from_flags(
    {"network": "impala_shallow", "batch_size": 2, "r_f_steps": 3, "envs_per_worker": 2, "precision": "float32"}
)


def test_every_stage_runs() -> None:
    bench = Bench(SMALL)
    stages = environment_stages(bench) + inference_stages(bench) + worker_stages(bench) + weight_stages(bench)
    stages += learning_stages(bench) + replay_stages(SMALL)
    assert len({stage.name for stage in stages}) == len(stages)
    for stage in stages:
        assert stage.steps > 0
        for _ in range(2):
            stage.run()


@pytest.mark.parametrize("use_lstm", [False, True])
def test_the_bare_loop_computes_what_the_network_does(use_lstm: bool) -> None:
    bench = Bench(SMALL.replace_flags(use_lstm=use_lstm, lstm_size=8))
    observations = random_observations(bench)
    logits, _ = bare_inference(bench, observations)()
    if not use_lstm:
        network = bench.network()
        with torch.no_grad():
            assert torch.allclose(logits, network.policy_head(network.features(observations)), atol=1e-6)
    assert logits.shape == (2, bench.layout.action_count)


def test_stages_take_turns() -> None:
    seen: list[str] = []
    stages = [Stage(name, lambda name=name: seen.append(name), 10) for name in "ab"]  # type: ignore[misc]
    threads = torch.get_num_threads()
    with one_core():
        times = in_turns(stages, seconds=0)
    assert torch.get_num_threads() == threads
    assert [name for name, before in zip(seen, ["", *seen], strict=False) if name != before] == list("abababab")
    assert times.ratio("a", "a") == 1
    assert np.isfinite(times.seconds("b"))


def test_the_learner_drains_recorded_workers() -> None:
    results = measure_drain(Bench(SMALL), workers=2, seconds=0.1)
    assert [one.work for one in results] == [DRAIN, MIX, LEARN]
    assert all(one.unrolls_per_second > 0 and one.workers == 2 for one in results)
