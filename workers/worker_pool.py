"""The worker processes as the learner sees them: a source of unrolls that mends itself."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import connection as connections
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from replay.unroll_layout import Rows
from workers.child_process import end_process, start_process
from workers.failures import no_room
from workers.flow_control import Lockstep, OnDemand, Turns
from workers.inference_server import SIGN_OF_LIFE_SECONDS, InferenceServer, introduce
from workers.messages import (
    WorkerError,
    receive_alive,
    receive_slot,
    receive_snapshot,
    send_free,
    send_snapshot,
    send_snapshot_request,
)
from workers.restarts import Place, Restarts
from workers.slots import Slots
from workers.worker import Worker


class WorkerPool:
    """Starts the workers, takes in the unrolls they deliver, and replaces those that die, hang or fail.

    An inference server starts before the workers, and where it is lost, they are replaced with it.
    """

    def __init__(
        self,
        make_worker: Callable[[int, int], Worker],  # (place, incarnation) → worker
        slots: Slots,
        announce: Callable[[str], None],
        *,
        lockstep: bool,
        silence_limit: float,
        restart_budget: int,
        server: InferenceServer | None = None,
    ) -> None:
        self._make_worker = make_worker
        self._rows = slots.rows
        self._announce = announce
        self._silence_limit = silence_limit
        self._restarts = Restarts(restart_budget)
        workers, slot_count, self._environments, _ = slots.rows.shape
        self._places = [Place(index, f"worker {index}") for index in range(workers)]
        self._server = server
        self._server_places = [] if server is None else [Place(-1, "the inference server", is_server=True)]
        self._slot_total = int(workers * slot_count)
        self._turns: Turns = Lockstep(workers) if lockstep else OnDemand(self._slot_total)
        # Each slot is in one of three places: idle, in the order in which they are handed out; among those that a
        # worker is to fill; or delivered.
        self._idle: deque[tuple[Place, int]] = deque(
            (place, slot) for slot in range(slot_count) for place in self._places
        )
        self._delivered: deque[tuple[Place, int]] = deque()  # filled slots, in the order in which they are taken
        self._taken = 0  # unrolls already taken from the first of them
        self._sources: dict[Any, Place] = {}  # pipes and process sentinels to wait for
        self._heard_at = time.monotonic()
        try:
            for place in self._all_places:
                self._start_first(place)
        except BaseException:
            self.close()
            raise

    @property
    def size(self) -> int:
        return len(self._places)

    @property
    def restarts(self) -> int:
        return self._restarts.count

    @property
    def alive(self) -> int:
        return sum(place.process is not None for place in self._places)

    @property
    def rounds_under_way(self) -> int:
        """Slots that workers write, or that hold what is not taken yet."""
        return self._slot_total - len(self._idle)

    @property
    def _all_places(self) -> list[Place]:
        return [*self._server_places, *self._places]

    def process_ids(self) -> list[int]:
        return [place.process.pid for place in self._all_places if place.process is not None and place.process.pid]

    def wait(self, timeout: float) -> None:
        """Hear what the workers have to say, for up to `timeout` seconds if nothing lies here to be taken.

        Workers that are gone are replaced, and those whose time has come are started.
        """
        if not self._delivered:
            self._hear(0.0)  # what has come while the learner was busy
        if not self._delivered:
            self._turns.found_nothing(learner_waits=timeout > 0)
        self._hear(0.0 if self._delivered else timeout)

    def _hear(self, timeout: float) -> None:
        self._hand_out()
        ready = connections.wait(list(self._sources), timeout)
        # The server first: where it is lost, that is why its workers end.
        for source in sorted(ready, key=lambda source: self._sources[source].index):
            if source in self._sources:  # a worker found dead a moment ago has no sources any more
                self._listen(self._sources[source])
        now = time.monotonic()
        away, self._heard_at = now - self._heard_at - timeout, now
        if away > self._silence_limit / 2:  # the learner was stopped, perhaps all of the run: nobody else is to blame
            for place in self._all_places:
                place.last_sign = now
        if any(now - server.last_sign > 3 * SIGN_OF_LIFE_SECONDS for server in self._server_places):
            for place in self._places:  # without its answers they cannot go on
                place.last_sign = now
        for place in self._all_places:
            if place.process is None:
                if now >= place.start_at and (place.is_server or self._is_served):
                    self._start_again(place)
            elif self._is_awaited(place) and now - place.last_sign > self._silence_limit:
                self._lose(place, f"gave no sign of life for {self._silence_limit:g} seconds")

    def take(self, limit: int) -> Iterator[Rows]:
        """At most `limit` delivered unrolls `[nbytes]`, oldest first.

        Each is a view into shared memory, good until the next one is asked for.
        """
        for _ in range(limit):
            if not self._delivered:
                return
            place, slot = self._delivered[0]
            if not self._taken:
                self._turns.round_begun(behind=len(self._delivered) - 1)
            yield self._rows[place.index, slot, self._taken]
            self._taken += 1
            if self._taken == self._environments:
                self._delivered.popleft()
                self._taken = 0
                self._idle.append((place, slot))
                self._hand_out()

    def in_flight(self, deadline: float, give_up: Callable[[], bool] = lambda: False) -> dict[str, Any] | None:
        """Lockstep only: what lies between the workers and the learner, once all workers are at rest.

        None if some worker does not come to rest before the deadline, or before it is time to give up.
        """
        while self._turns.limit or self.alive < len(self._places):
            if give_up() or time.monotonic() > deadline:
                return None
            self._hear(0.1)
        snapshots = []
        for place in self._places:
            assert place.connection is not None
            try:
                send_snapshot_request(place.connection)
                while not place.connection.poll(0.1):
                    if give_up() or time.monotonic() > deadline:
                        return None
                snapshots.append(receive_snapshot(place.connection))
            except WorkerError as error:
                self._lose(place, f"failed:\n{error}")
                return None
            except (EOFError, OSError):  # has just died; the next `wait` will see it
                return None
        rows = [self._rows[place.index, slot, e] for place, slot in self._delivered for e in range(self._environments)]
        rows = rows[self._taken :]
        empty = np.empty((0, self._rows.shape[-1]), np.uint8)
        return {"snapshots": snapshots, "unrolls": torch.from_numpy(np.stack(rows) if rows else empty)}

    def put_back(self, in_flight: dict[str, Any]) -> None:
        """Lockstep only, before the first `wait`: the workers go on, and the unrolls are delivered, as they were."""
        for place, snapshot in zip(self._places, in_flight["snapshots"], strict=True):
            assert place.connection is not None
            with suppress(BrokenPipeError, ConnectionResetError):  # has just died; the next `wait` will see it
                send_snapshot(place.connection, snapshot)
        unrolls = in_flight["unrolls"].numpy()
        if not len(unrolls):
            return
        first = len(self._places) * self._environments - len(unrolls)
        place_index, self._taken = divmod(first, self._environments)
        self._rows.reshape(-1, self._rows.shape[-1])[first:] = unrolls
        for place in self._places[place_index:]:
            self._idle.remove((place, 0))
            self._delivered.append((place, 0))

    def close(self) -> None:
        """End all workers; they hold nothing that could be lost."""
        for place in self._all_places:
            if place.process is not None:
                place.process.kill()
        for place in self._all_places:
            if place.process is not None:
                self._reap(place)

    @property
    def _is_served(self) -> bool:
        """Whether nothing is missing that workers need."""
        return all(place.process is not None for place in self._server_places)

    def _is_awaited(self, place: Place) -> bool:
        return place.is_server or bool(place.slots_to_fill)

    def _listen(self, place: Place) -> None:
        """Take in what one worker has sent; whole unrolls of a dead one count."""
        assert place.connection is not None
        try:
            while place.connection.poll():
                if place.is_server:
                    self._sign_of_life(place, receive_alive(place.connection))
                    continue
                slot = receive_slot(place.connection)
                if slot is not None:
                    self._filled(place, slot)
        except WorkerError as error:
            self._lose(place, f"failed:\n{error}")
        except (EOFError, OSError):
            self._lose(place)

    def _filled(self, place: Place, slot: int) -> None:
        place.slots_to_fill.remove(slot)
        self._sign_of_life(place, at_work=True)
        self._delivered.extend((self._places[index], filled) for index, filled in self._turns.fill((place.index, slot)))

    def _sign_of_life(self, place: Place, at_work: bool) -> None:
        place.last_sign = time.monotonic()
        if at_work:
            place.failures = 0

    def _hand_out(self) -> None:
        """Let workers write as many slots as there may be rounds under way; those whose worker is gone stay idle."""
        room = self._turns.limit - self.rounds_under_way
        if room <= 0:
            return
        for place, slot in [(place, slot) for place, slot in self._idle if place.connection is not None][:room]:
            self._idle.remove((place, slot))
            if not place.slots_to_fill:  # and it was not awaited until now
                place.last_sign = time.monotonic()
            place.slots_to_fill.add(slot)
            assert place.connection is not None
            with suppress(BrokenPipeError, ConnectionResetError):  # has just died; the next `wait` will see it
                send_free(place.connection, slot)

    def _start(self, place: Place) -> None:
        if place.is_server:
            place.process, place.connection = start_process(self._server, "inference")
        else:
            worker = self._make_worker(place.index, place.incarnation)
            place.process, place.connection = start_process(worker, f"worker-{place.index}", *self._pipes_for(place))
        place.last_sign = time.monotonic()
        self._sources[place.connection] = self._sources[place.process.sentinel] = place

    def _start_first(self, place: Place) -> None:
        try:
            self._start(place)
        except OSError as error:
            raise no_room(place.name, error) from None

    def _start_again(self, place: Place) -> None:
        """Where the system has no room for a process just now, as where one has died: later, or in the end no more."""
        try:
            self._start(place)
        except OSError as error:
            why = error.strerror or str(error)
            if self._restarts.postpone(place, why):
                self._announce(f"{place.name} is replaced later: it could not be started ({why})")
        else:
            place.refusals = 0

    def _pipes_for(self, place: Place) -> Iterator[Connection]:
        """Between a worker and the server, if there is one."""
        for server in self._server_places:
            assert server.process is not None and server.connection is not None and server.process.pid is not None
            yield introduce(server.connection, server.process.pid, place.index)

    def _lose(self, place: Place, how: str = "") -> None:
        """Take a worker's place back, and plan its replacement: at once, or later the more often it failed in a row."""
        how = self._restarts.plan(place, self._reap(place), how)
        self._announce(f"{place.name} is replaced: it {how}")
        if place.is_server:
            self._send_home(place.start_at)

    def _send_home(self, start_at: float) -> None:
        """End the workers that have lost their server; others follow when the next one starts."""
        for place in self._places:
            if place.process is not None:
                self._reap(place)
                place.incarnation += 1
            place.start_at = max(place.start_at, start_at)

    def _reap(self, place: Place) -> int:
        """End the worker for certain before its slots are used again; return its exit code."""
        process, connection = place.process, place.connection
        assert process is not None and connection is not None
        del self._sources[connection], self._sources[process.sentinel]
        place.process = place.connection = None
        self._idle.extend((place, slot) for slot in sorted(place.slots_to_fill))
        place.slots_to_fill.clear()
        return end_process(process, connection)
