"""Real worker and inference processes. Nothing here depends on how fast they are."""

import time
from collections.abc import Callable, Iterator
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
from processes.child import start_child
from processes.fork_server import ForkServer
from processes.messages import Kind, receive, send
from replay.unroll_layout import UnrollLayout
from workers.memory.shared_array import SharedArray
from workers.memory.shared_weights import SharedWeights
from workers.realtime.worker import RealtimeWorker
from workers.worker import Place, PlaySetup, SharedMemory
from workers.worker_clock import CPU, WorkerTimes
from wrappers.atari import make_atari

pytestmark = pytest.mark.slow

GAMES, STEPS, LATENCY_FRAMES = 2, 5, 12
STOP_SECONDS, FPS = 3.0, 60.0
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

    def __init__(self, fork_server: ForkServer, processes: int, **options: Any) -> None:
        config = Config.from_flags({**OPTIONS, **options})
        self.layout: UnrollLayout = make_unroll_layout(config, make_atari)
        network = ActorCritic(config.network, self.layout, torch.float32)
        self.weights = SharedWeights(weight_count(network))
        self.weights.publish(3, flat_weights(network))
        self.slots = SharedArray((1, 2, GAMES, self.layout.nbytes))
        self.times = WorkerTimes(1)
        machine = Machine(torch.device("cpu"), torch.float32, torch.float32, 1, 2, 1, inference_processes=processes)
        setup = PlaySetup(config, make_atari, self.layout, machine)
        worker = RealtimeWorker(setup, SharedMemory(self.slots, self.weights, self.times), Place(0))
        self.child = start_child(worker, "worker 0", launch=fork_server)
        self.alive = True

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
        if self.alive:
            self.child.end()
        for block in (self.weights, self.slots, self.times):
            block.close()


def next_filled(connection: Connection) -> int:
    while (message := receive(connection)).kind != Kind.SLOT_FILLED:
        assert message.kind == Kind.HEARTBEAT
    return message.index


@pytest.fixture
def make_learner(fork_server: ForkServer) -> Iterator[Callable[..., Learner]]:
    learners = []

    def make(processes: int, **options: Any) -> Learner:
        learners.append(Learner(fork_server, processes, **options))
        return learners[-1]

    yield make
    for learner in learners:
        learner.close()


def wait_until(condition: Callable[[], bool]) -> None:
    while not condition():  # pytest's timeout ends it
        time.sleep(0.05)


@pytest.mark.parametrize("rule", ["none", "max", "mean"])
def test_processes_take_turns(make_learner: Callable[..., Learner], rule: str) -> None:
    """A single process would act once in the time of an inference."""
    shortest = 1000 * LATENCY_FRAMES / 60
    # Without a rule, processes of the same speed that begin together stay together: only random times part them.
    latency = f"uniform:{shortest}:{1.5 * shortest}" if rule == "none" else f"fixed:{shortest}"
    learner = make_learner(3, stagger=rule, inference_latency=latency)
    learner.free()
    played = [learner.unrolls() for _ in range(6)]
    assert len(learner.inference_ids()) == 3
    found = {name: np.concatenate([unrolls[name] for unrolls in played], -1) for name in ("valid", "ages", "durations")}
    valid = found["valid"].astype(bool)
    # Without a rule, the three processes may act at the same time, and two of three actions are overwritten.
    assert valid.sum() >= valid.size / 3 - 3 if rule == "none" else valid.sum() > valid.size / 2
    assert found["ages"][valid].min() >= LATENCY_FRAMES - 1
    assert (4 * found["durations"][valid]).min() < LATENCY_FRAMES - 1
    for unrolls in played:
        assert unrolls["inference_times"].min() >= 1000 * LATENCY_FRAMES / 60
        assert unrolls["environment_id"].tolist() == [0, 1]
        assert (unrolls["weight_version"] == 3).all()
        assert (unrolls["idle_frames"] <= unrolls["played_frames"]).all()
    assert learner.times.seconds[0, CPU] > 0


def test_new_weights_are_used_at_once(make_learner: Callable[..., Learner]) -> None:
    learner = make_learner(2)
    learner.free()
    learner.unrolls()
    learner.weights.publish(4, torch.zeros(learner.weights.weight_count))
    while (unrolls := learner.unrolls())["weight_version"][0] != 4:
        pass
    np.testing.assert_array_equal(unrolls["behaviour_logits"], 0)


def test_a_killed_inference_process_is_replaced(make_learner: Callable[..., Learner]) -> None:
    learner = make_learner(3)
    learner.free()
    learner.unrolls()
    before = learner.inference_ids()
    killed = min(before)
    psutil.Process(killed).kill()
    wait_until(lambda: len(learner.inference_ids() - {killed}) == 3)
    assert before - {killed} < learner.inference_ids(), "the others go on"
    assert not learner.child.has_ended
    for _ in range(3):
        learner.unrolls()


def test_a_stopped_inference_process_is_replaced(make_learner: Callable[..., Learner]) -> None:
    learner = make_learner(2, worker_timeout=1.0)
    learner.free()
    learner.unrolls()
    stopped = min(learner.inference_ids())
    psutil.Process(stopped).suspend()
    wait_until(lambda: stopped not in learner.inference_ids() and len(learner.inference_ids()) == 2)
    learner.unrolls()


def test_a_stop_of_the_worker_is_no_inference_time(make_learner: Callable[..., Learner]) -> None:
    """One of its processes is making a decision when it is stopped, and answers meanwhile."""
    learner = make_learner(2)
    learner.free()
    learner.unrolls()
    worker = psutil.Process(learner.child.pid)
    worker.suspend()
    time.sleep(STOP_SECONDS)
    worker.resume()
    played = [learner.unrolls() for _ in range(3)]
    frames_of_stop = STOP_SECONDS * FPS
    assert max(unrolls["missed_frames"].max() for unrolls in played) < frames_of_stop, "games stand still, too"
    assert max(unrolls["inference_times"].max() for unrolls in played) < 1000 * STOP_SECONDS


def test_nothing_stays_of_a_killed_worker(make_learner: Callable[..., Learner]) -> None:
    learner = make_learner(2)
    learner.free()
    learner.unrolls()
    processes = learner.descendants()
    assert len(processes) == 3
    learner.child.end()
    learner.alive = False
    wait_until(lambda: not any(process.is_running() and process.status() != "zombie" for process in processes))


def test_unrolls_without_a_slot_are_dropped_and_counted(make_learner: Callable[..., Learner]) -> None:
    """The newest round waits, so what is delivered follows at most one round that waited."""
    learner = make_learner(1, inference_latency="fixed:1", fps=480.0)
    learner.free()
    assert learner.unrolls()["dropped_unrolls"].tolist() == [0, 0]
    slot = next_filled(learner.child.connection)
    dropped = 0
    while not dropped:
        time.sleep(0.2)  # longer than some rounds, on a machine that is not very busy
        learner.free(slot)
        slot = next_filled(learner.child.connection)
        counted = learner.layout.array(learner.slots.array[0, slot], "dropped_unrolls")
        dropped = int(counted[0])
        assert counted.tolist() == [dropped] * GAMES
