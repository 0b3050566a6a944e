"""The inference server chooses the same actions as workers do, also after a worker or the server was killed."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents.acting import Actor, flat_weights, weight_count
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from machine.machine_setup import Machine
from option_flags import Config
from processes.messages import Kind, receive
from replay.unroll_layout import UnrollLayout
from tests.catch import CELL, CELLS, make_catch
from tests.training.catch_runs import catch_run, resume_run
from tests.training.resumed_runs import assert_same_run
from tests.training.test_train import catch_config
from tests.workers.test_rollout import make_environment
from workers import inference_server as server_module
from workers.actors import make_pool
from workers.inference_server import InferenceServer
from workers.policies import LocalPolicy, RemotePolicy
from workers.policy_inputs import InferenceRows
from workers.rollout import Rollout
from workers.shared_array import CPU, make_times
from workers.shared_weights import NewestWeights, SharedWeights
from workers.worker import PlaySetup
from workers.worker_pool import WorkerPool

pytestmark = pytest.mark.slow

CPU_DEVICE = torch.device("cpu")
OPTIONS = replace(Config().network, network="impala_shallow")
ENVIRONMENTS = 3


class ServerThread:
    """A server in a thread of this process, and its shared memory."""

    def __init__(self, lstm_size: int, lockstep: bool, workers: int, device: torch.device) -> None:
        torch.manual_seed(0)
        self.layout = UnrollLayout(
            7, 3, frame_shape=(1, CELLS * CELL, CELLS * CELL), action_sizes=(3,), lstm_size=lstm_size, feature_size=4
        )
        self.network = with_strong_preferences(ActorCritic(OPTIONS, self.layout, torch.float32))
        self.weights = SharedWeights(weight_count(self.network))
        self.weights.publish(0, flat_weights(self.network))
        self.rows = InferenceRows(self.layout, workers, ENVIRONMENTS)
        self.times = make_times(workers + 1)
        self._learner, servers_end = multiprocessing.Pipe()
        ends = [multiprocessing.Pipe() for _ in range(workers)]
        self.pipes = [worker_end for worker_end, _ in ends]
        server = InferenceServer(
            OPTIONS,
            torch.float32,
            device,
            self.rows,
            self.weights,
            self.times,
            lockstep,
            [server_end for _, server_end in ends],
        )
        self._thread = threading.Thread(target=self._serve, args=(server, servers_end))
        self._thread.start()

    def _serve(self, server: InferenceServer, pipe: Connection) -> None:
        with pipe, contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
            server.run(pipe)

    def remote(self, worker: int = 0, restart_index: int = 0) -> RemotePolicy:
        return RemotePolicy(self.rows, worker, self.pipes[worker], restart_index)

    def local(self) -> LocalPolicy:
        """A worker's own copy of the policy."""
        actor = Actor(ActorCritic(OPTIONS, self.layout, torch.float32))
        newest = NewestWeights(self.weights, actor, CPU_DEVICE)
        return LocalPolicy(actor, self.layout, ENVIRONMENTS, newest.load)

    def heartbeat(self) -> int:
        """The index of the next heartbeat."""
        message = receive(self._learner)
        assert message.kind == Kind.HEARTBEAT
        return message.index

    def close(self) -> None:
        self._learner.close()
        self._thread.join()


def with_strong_preferences(network: ActorCritic) -> ActorCritic:
    torch.nn.init.orthogonal_(network.policy_head.weight, 3.0)
    return network


@contextlib.contextmanager
def running_server(
    lstm_size: int = 0,
    lockstep: bool = False,
    workers: int = 1,
    padding: int = 0,
    device: torch.device = CPU_DEVICE,
) -> Iterator[ServerThread]:
    """`padding` rows are added to each batch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workers.inference_server.padded_size", lambda count, device: count + padding)
        server = ServerThread(lstm_size, lockstep, workers, device)
        try:
            yield server
        finally:
            server.close()


def collect(rollout: Rollout, layout: UnrollLayout) -> dict[str, Any]:
    rows = np.zeros((ENVIRONMENTS, layout.nbytes), np.uint8)
    rollout.collect(rows)
    return layout.arrays(rows)


@pytest.mark.parametrize("lstm_size", [0, 8])
@pytest.mark.parametrize("time_limit", [False, True])
def test_with_the_same_groups_results_are_equal_to_the_last_bit(lstm_size: int, time_limit: bool) -> None:
    """Weights change between unrolls, and a snapshot is restored over another process's requests in memory."""
    with running_server(lstm_size, lockstep=True) as served:
        in_halves = served.local()
        in_halves.groups = served.rows.groups[:-1]
        local, remote = (
            Rollout([make_environment(e, time_limit) for e in range(ENVIRONMENTS)], policy, served.layout)
            for policy in (in_halves, served.remote())
        )
        for version in range(3):
            if version:
                served.weights.publish(version, flat_weights(with_strong_preferences(served.network)))
            if version == 2 and not time_limit:  # the snapshot does not hold the steps that CutAfterThree counts
                snapshot = remote.snapshot()
                remote = Rollout(
                    [make_environment(e, time_limit) for e in range(ENVIRONMENTS)],
                    served.remote(restart_index=1),
                    served.layout,
                )
                remote.restore(snapshot)
            expected, found = collect(local, served.layout), collect(remote, served.layout)
            assert (found["weight_version"] == version).all()
            for name in expected:
                np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
        assert found["behaviour_logits"].std() > 0.1 and found["features"].any()
        assert found["first_lstm_state"].any() == bool(lstm_size)
        assert found["bootstraps"].any() == time_limit


@pytest.mark.parametrize("lstm_size", [0, 8])
@pytest.mark.parametrize("padding", [0, 3])
def test_other_groups_change_rounding_errors_only(lstm_size: int, padding: int) -> None:
    """The requests of two workers may share a batch or not; a local policy computes all environments at once."""
    with running_server(lstm_size, workers=2, padding=padding) as served:
        found: dict[int, dict[str, Any]] = {}

        def play(worker: int, policy: RemotePolicy) -> None:
            rollout = Rollout([make_environment(e, True) for e in range(ENVIRONMENTS)], policy, served.layout)
            found[worker] = collect(rollout, served.layout)

        players = [threading.Thread(target=play, args=(worker, served.remote(worker))) for worker in range(2)]
        for player in players:
            player.start()
        for player in players:
            player.join()
        rollout = Rollout([make_environment(e, True) for e in range(ENVIRONMENTS)], served.local(), served.layout)
        expected = collect(rollout, served.layout)
        for unroll in found.values():
            np.testing.assert_array_equal(unroll["actions"], expected["actions"])
            for name in ("behaviour_logits", "values", "bootstraps", "first_lstm_state"):
                np.testing.assert_allclose(unroll[name], expected[name], rtol=0, atol=1e-5, err_msg=name)


def test_results_for_a_dead_worker_are_not_taken_by_its_replacement() -> None:
    """It has asked for two groups, and for a value; the replacement asks for one group."""
    with running_server(lockstep=True) as served:
        dead = served.remote()
        for group in (0, 1, 2):
            dead.request(group)
        served.weights.publish(5, flat_weights(served.network))
        replacement = served.remote(restart_index=1)
        replacement.request(1)
        assert replacement.result(1)[1] == 5
        assert not served.pipes[0].poll(), "all older results came before"


def test_heartbeats_say_whether_the_server_has_returned_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HEARTBEAT_SECONDS", 0.01)
    with running_server() as served:
        assert [served.heartbeat() for _ in range(3)] == [0, 0, 0]
        policy = served.remote()
        policy.request(0)
        policy.result(0)
        while not served.heartbeat():  # older ones may be on their way; pytest's timeout ends it
            pass


def test_the_server_counts_its_processor_time() -> None:
    with running_server() as served:
        policy = served.remote()
        while not served.times.array[-1, CPU]:
            policy.request(0)
            policy.result(0)
        assert not served.times.array[:, :CPU].any(), "the stages are times of workers only"


def test_a_worker_and_a_server_that_are_killed_are_replaced(tmp_path: Path) -> None:
    config = catch_config(tmp_path, inference="learner", envs_per_worker=3, network="impala_shallow")
    layout = make_unroll_layout(config, make_catch)
    network = ActorCritic(config.network, layout, torch.float32)
    weights = SharedWeights(weight_count(network))
    weights.publish(0, flat_weights(network))
    times, announced = make_times(2), list[str]()
    machine = Machine(CPU_DEVICE, torch.float32, torch.float32, 1, 2, 1)
    pool = make_pool(PlaySetup(config, make_catch, layout, machine), weights, times, announced.append)
    with closing(pool):
        take(pool, layout, 12)
        server, worker = pool.children.process_ids()
        os.kill(worker, signal.SIGKILL)
        while not announced:
            pool.wait(0.1)
        take(pool, layout, 6 + 12)  # some were played before the kill
        assert pool.children.process_ids()[0] == server
        os.kill(server, signal.SIGKILL)
        while len(announced) < 2:
            pool.wait(0.1)
        take(pool, layout, 6 + 12)
        assert len({server, worker, *pool.children.process_ids()}) == 4
    how = "is replaced: it was killed by SIGKILL"
    assert announced == [f"worker 0 {how}", f"the inference server {how}"]


def take(pool: WorkerPool, layout: UnrollLayout, count: int) -> None:
    for _ in range(count):
        while not (rows := list(pool.take(1))):
            pool.wait(0.1)
        assert layout.array(rows[0], "weight_version") == 0
        assert layout.array(rows[0], "behaviour_logits").any()


def test_a_run_with_the_server_equals_a_run_without_and_resumes_exactly(tmp_path: Path) -> None:
    """With one environment per worker, both have the same batch sizes. A GPU would differ in the last bits."""
    flags: dict[str, Any] = {"device": "cpu", "worker_count": 2, "envs_per_worker": 1, "r_f_steps": 5, "batch_size": 4}
    flags |= {"reproducible": True, "report_period": 100, "network": "impala_shallow", "use_lstm": True, "lstm_size": 8}
    whole = catch_run(tmp_path, environment_max_steps=400, **flags)
    part = catch_run(tmp_path, environment_max_steps=95, inference="learner", **flags)
    assert_same_run(whole, part, resume_run(part, make_catch, environment_max_steps=400))
