"""Real worker and inference processes. Nothing here depends on how fast they are."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import flat_weights, weight_count
from agents.network import ActorCritic
from agents.spaces import make_unroll_layout
from machine.machine_setup import Machine
from option_flags import Config
from processes.fork_server import start_forked
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.realtime.session import RealtimeWorker
from workers.shared_array import CPU, SharedArray, make_times
from workers.shared_weights import SharedWeights
from workers.worker import PlaySetup, SharedMemory
from wrappers.atari import make_atari

pytestmark = pytest.mark.slow

GAMES, STEPS, LATENCY_FRAMES = 2, 5, 12
STOP_SECONDS, FPS = 1.5, 60.0
OPTIONS = {
    "interaction": "realtime",
    "envs_per_worker": GAMES,
    "r_f_steps": STEPS,
    "frame_scale_resolution": "36,36",
    "fps": FPS,
    "inference_latency": f"fixed:{1000 * LATENCY_FRAMES / 60}",
    "seed": 1,
}


class Learner:
    """One worker with its memory, and the learner's end of the pipe."""

    def __init__(self, processes: int, **options: Any) -> None:
        config = Config.from_flags({**OPTIONS, **options})
        self.layout: UnrollLayout = make_unroll_layout(config, make_atari)
        network = ActorCritic(config.network, self.layout, torch.float32)
        self.weights = SharedWeights(weight_count(network))
        self.version = 3
        self.weights.publish(self.version, flat_weights(network))
        self.slots = SharedArray((1, 2, GAMES, self.layout.nbytes))
        self.times = make_times(1)
        machine = Machine(torch.device("cpu"), torch.float32, torch.float32, 1, 2, 1, inference_processes=processes)
        setup = PlaySetup(config, make_atari, self.layout, machine)
        worker = RealtimeWorker(setup, SharedMemory(self.slots, self.weights, self.times), index=0)
        self.child = start_forked(worker, "worker 0")

    def descendants(self) -> list[psutil.Process]:
        """The fork server and the inference processes."""
        return psutil.Process(self.child.pid).children(recursive=True)

    def inference_ids(self) -> set[int]:
        """The processes whose parent is the fork server."""
        servers = {child.pid for child in psutil.Process(self.child.pid).children()}
        return {child.pid for child in self.descendants() if child.pid not in servers}

    def free(self, slot: int = 0) -> None:
        send(self.child.connection, Kind.SLOT_FREE, slot)

    def unrolls(self) -> dict[str, NDArray[Any]]:
        """The next unrolls that are delivered, copied."""
        slot = next_filled(self.child.connection)
        fields = self.layout.arrays(self.slots.array[0, slot].copy())
        self.free(slot)
        return fields

    def close(self) -> None:
        self.child.end()


def next_filled(connection: Connection) -> int:
    while (message := receive(connection)).kind != Kind.SLOT_FILLED:
        assert message.kind == Kind.HEARTBEAT
    return message.index


@pytest.fixture(scope="module")
def learner() -> Iterator[Learner]:
    """A learner that all tests below share, and whose worker has three inference processes. Nothing of it stays."""
    learner = Learner(3, worker_timeout=3.0)
    with closing(learner):
        learner.free()
        yield learner
        processes = learner.descendants()
        assert len(processes) == 4
    wait_until(lambda: not any(process.is_running() and process.status() != "zombie" for process in processes))


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # pytest's timeout ends it
        time.sleep(0.05)


def test_processes_take_turns(learner: Learner) -> None:
    """A single process would act once in the time of an inference."""
    played = [learner.unrolls() for _ in range(6)]
    assert len(learner.inference_ids()) == 3
    found = {name: np.concatenate([unrolls[name] for unrolls in played], -1) for name in ("valid", "ages", "durations")}
    valid = found["valid"].astype(bool)
    assert valid.sum() > valid.size / 2
    assert found["ages"][valid].min() >= LATENCY_FRAMES - 1
    assert (4 * found["durations"][valid]).min() < LATENCY_FRAMES - 1
    for unrolls in played:
        assert unrolls["inference_times"].min() >= 1000 * LATENCY_FRAMES / 60
        assert unrolls["environment_id"].tolist() == [0, 1]
        assert (unrolls["weight_version"] == 3).all()
        assert (unrolls["idle_frames"] <= unrolls["played_frames"]).all()
    assert learner.times.array[0, CPU] > 0


def test_new_weights_are_used_at_once(learner: Learner) -> None:
    newer = learner.version = learner.version + 1
    learner.weights.publish(newer, torch.zeros(learner.weights.weight_count))
    while (unrolls := learner.unrolls())["weight_version"][0] != newer:
        pass
    np.testing.assert_array_equal(unrolls["behaviour_logits"], 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_inference_process_that_is_killed_or_stopped_is_replaced(learner: Learner, number: signal.Signals) -> None:
    learner.unrolls()
    before = learner.inference_ids()
    lost = min(before)
    os.kill(lost, number)
    wait_until(lambda: lost not in learner.inference_ids() and len(learner.inference_ids()) == 3)
    assert before - {lost} < learner.inference_ids(), "the others go on"
    assert not learner.child.has_ended
    for _ in range(3):
        learner.unrolls()


def test_a_stop_of_the_worker_is_no_inference_time(learner: Learner) -> None:
    """One of its processes is making a decision when it is stopped, and answers meanwhile."""
    learner.unrolls()
    worker = psutil.Process(learner.child.pid)
    worker.suspend()
    time.sleep(STOP_SECONDS)
    worker.resume()
    played = [learner.unrolls() for _ in range(3)]
    frames_of_stop = STOP_SECONDS * FPS
    assert max(unrolls["missed_frames"].max() for unrolls in played) < frames_of_stop, "games stand still, too"
    assert max(unrolls["inference_times"].max() for unrolls in played) < 1000 * STOP_SECONDS


def test_unrolls_without_a_slot_are_dropped_and_counted() -> None:
    """The newest round waits, so what is delivered follows at most one round that waited."""
    with closing(Learner(1, inference_latency="fixed:1", fps=480.0, r_f_steps=1)) as learner:
        learner.free()
        assert learner.unrolls()["dropped_unrolls"].tolist() == [0, 0]
        slot = next_filled(learner.child.connection)
        dropped = 0
        while not dropped:
            time.sleep(0.05)  # longer than some rounds, on a machine that is not very busy
            learner.free(slot)
            slot = next_filled(learner.child.connection)
            counted = learner.layout.array(learner.slots.array[0, slot], "dropped_unrolls")
            dropped = int(counted[0])
            assert counted.tolist() == [dropped] * GAMES
