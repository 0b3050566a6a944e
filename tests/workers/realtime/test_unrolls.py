"""Unrolls of scripted games and inference times, compared with a slow version that reads the log of all events."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from agents.acting import Decision
from agents.training_batch import rebuild_stacks
from replay.row_layout import Rows
from replay.unroll_layout import UnrollLayout
from tests.workers.realtime.fake_inference import FakeSession, note_effects
from tests.workers.realtime.numbered_frames import OPTIONS, Ending, make_numbered
from workers.policy_inputs import PolicyInputs
from workers.realtime.player import ClockedGame, PlayedFrame
from workers.realtime.unrolls import RealtimeUnrolls
from workers.rollout import SeededEnvironment
from wrappers.timeline import Effect

STEPS = 5
LAYOUT = UnrollLayout(STEPS, 3, frame_shape=(1, 4, 4), action_sizes=(3,), delayed_actions=True, real_time=True)
NEVER = 10**9


class Noted(NamedTuple):
    """An event of a game: its kind, the number of a decision, and a frame."""

    kind: str
    number: int = -1
    frame: PlayedFrame | None = None
    age: int = 0
    missed: bool = False


class Log(RealtimeUnrolls):
    """Unrolls that also write down all events of each game."""

    def __init__(self, environments: Sequence[SeededEnvironment]) -> None:
        super().__init__(LAYOUT, OPTIONS, environments)
        self.events: list[list[Noted]] = [[] for _ in environments]
        self.seconds: dict[int, float] = {}
        self.delivered: list[Rows] = []

    def started(self, sequence: int, inputs: PolicyInputs, rewards: Sequence[float]) -> None:
        for events in self.events:
            events.append(Noted("start", sequence))
        super().started(sequence, inputs, rewards)
        self._deliver()

    def decided(self, sequence: int, decision: Decision, version: int, seconds: float) -> None:
        for events in self.events:
            events.append(Noted("decided", sequence))
        self.seconds[sequence] = seconds
        super().decided(sequence, decision, version, seconds)

    def took_effect(self, game: int, effect: Effect) -> None:
        assert effect.decision is not None
        self.events[game].append(Noted("effect", effect.decision, age=effect.age))

    def known(self, game: int, effect: Effect) -> None:
        super().known(game, effect)
        self._deliver()

    def played(self, game: int, frame: PlayedFrame, missed: bool) -> None:
        self.events[game].append(Noted("frame", frame=frame, missed=missed))
        super().played(game, frame, missed)
        self._deliver()

    def _deliver(self) -> None:
        if (rows := self.take()) is not None:
            self.delivered.append(rows)


class Step(NamedTuple):
    """What the slow version expects of one step of one game."""

    valid: bool
    reward: float
    duration: float
    age: int
    ended: bool
    bootstrap: float
    done: bool
    seen_reward: float
    played: int
    idle: int
    missed: int


def expected_steps(events: list[Noted], count: int) -> list[Step]:
    """The first `count` steps of a game, each from a search through the whole log."""
    starts = {event.number: at for at, event in enumerate(events) if event.kind == "start"}
    over = [at for at, event in enumerate(events) if event.frame is not None and event.frame.ended]

    def episode(at: int) -> int:
        return sum(end < at for end in over)

    def frames(first: int, last: int) -> list[PlayedFrame]:
        return [event.frame for event in events[first:last] if event.frame is not None]

    effects = [at for at, event in enumerate(events) if event.kind == "effect"]
    played_for: dict[int, tuple[int, list[PlayedFrame]]] = {}  # decision → its effect, and the frames until the next
    for at in effects:
        later = [other for other in effects if other > at]
        end = min([*later[:1], *(end + 1 for end in over if end >= at)], default=len(events))
        if found := frames(at, end):
            played_for[events[at].number] = at, found
    steps = []
    for number in range(count):
        first, last = starts[number], starts[number + 1]
        between = frames(first, last)
        counted = slice(first if number else 0, last)  # frames before the first decision count with it
        at, found = played_for.get(number, (NEVER, []))
        mine = [n for n, (other, _) in played_for.items() if episode(other) == episode(at)]
        cut = [end for end in over if end >= at][:1] if at != NEVER and max(mine) == number else []
        is_cut = bool(cut and (frame := events[cut[0]].frame) and frame.cut)
        decided = [
            event.number
            for other, event in enumerate(events[: cut[0]] if cut else [])
            if event.kind == "decided" and episode(other) == episode(starts[event.number]) == episode(at)
        ]
        steps.append(
            Step(
                valid=bool(found),
                reward=float(np.sign(round(sum(frame.reward for frame in found), 9))),
                duration=len(found) / OPTIONS.skipped_frames,
                age=events[at].age if found else 0,
                ended=bool(cut),
                bootstrap=float(max(decided)) if is_cut else 0.0,
                done=any(first < end < last for end in over),
                seen_reward=float(np.sign(sum(frame.reward for frame in between))),
                played=len(frames(counted.start, last)),
                idle=sum(frame.played.is_idle for frame in frames(counted.start, last)),
                missed=sum(event.missed for event in events[counted]),
            )
        )
    return steps


def play(
    endings: list[list[Ending]],
    processes: int,
    rule: Any,
    mean_seconds: float,
    unrolls: int,
    killed: int | None = None,
    seed: int = 0,
) -> tuple[Log, FakeSession]:
    """Play until so many unrolls are complete. `killed` is a process that dies now and then."""
    environments = [
        SeededEnvironment(make_numbered(*each), e, np.random.default_rng(e)) for e, each in enumerate(endings)
    ]
    rng = np.random.default_rng(seed)
    games = [ClockedGame(each.env, each.uniforms, OPTIONS) for each in environments]
    for game in games:
        game.start()
    log = Log(environments)
    for e, game in enumerate(games):
        note_effects(game, partial(log.took_effect, e))
    session = FakeSession(
        games, LAYOUT, log, lambda process: float(rng.lognormal(np.log(mean_seconds), 0.6)), processes, rule
    )
    for unroll in range(1, unrolls + 1):
        session.play(lambda wanted=unroll: len(log.delivered) >= wanted)  # type: ignore[misc]
        if killed is not None:
            session.kill(killed)
    return log, session


def fields(log: Log, name: str) -> NDArray[Any]:
    """A field of all delivered unrolls; of those with steps, [E, steps]."""
    arrays = [LAYOUT.array(rows, name) for rows in log.delivered]
    return np.concatenate(arrays, axis=1) if arrays[0].ndim > 1 else np.array(arrays).T


GAMES = [[Ending(13), Ending(6, cut=True), Ending(1)], [Ending(39, cut=True), Ending(3)]]


@pytest.mark.parametrize("killed", [None, 0])
@pytest.mark.parametrize(("processes", "mean_seconds"), [(1, 0.1), (1, 0.5), (4, 2.0), (3, 0.2)])
@pytest.mark.parametrize("rule", ["none", "max", "mean"])
def test_every_step_is_as_the_log_says(rule: str, processes: int, mean_seconds: float, killed: int | None) -> None:
    log, _ = play(GAMES, processes, rule, mean_seconds, unrolls=6, killed=killed)
    for e, events in enumerate(log.events):
        steps = expected_steps(events, 6 * STEPS)
        assert fields(log, "valid")[e].tolist() == [step.valid for step in steps]
        for name, wanted in (
            ("rewards", [step.reward for step in steps]),
            ("durations", [step.duration for step in steps]),
            ("ages", [step.age for step in steps]),
            ("ended", [step.ended for step in steps]),
            ("bootstraps", [step.bootstrap for step in steps]),
            ("dones", [step.done for step in steps]),
            ("seen_rewards", [step.seen_reward for step in steps]),
        ):
            np.testing.assert_allclose(fields(log, name)[e], wanted, err_msg=name, rtol=1e-6)
        for name, counts in (
            ("played_frames", [step.played for step in steps]),
            ("idle_frames", [step.idle for step in steps]),
            ("missed_frames", [step.missed for step in steps]),
        ):
            assert fields(log, name)[e].tolist() == np.reshape(counts, (-1, STEPS)).sum(1).tolist(), name
    decided = [number for number in range(6 * STEPS) if number in log.seconds]
    assert fields(log, "behaviour_logits")[0, decided, 1].tolist() == decided
    assert fields(log, "actions")[1, decided].tolist() == [number % 3 for number in decided]
    times = [1000 * log.seconds[number] for number in decided]
    np.testing.assert_allclose(fields(log, "inference_times")[0, decided], times, rtol=1e-5)


def test_the_script_covers_all_cases() -> None:
    """Among the steps of the test above are invalid ones, overtaken ones, and ends of both kinds."""
    log, _ = play(GAMES, 4, "mean", 2.0, unrolls=6)
    effects = [event.number for event in log.events[1] if event.kind == "effect"]
    assert any(later < earlier for earlier, later in itertools.pairwise(effects))
    assert 0 < fields(log, "valid").sum() < fields(log, "valid").size
    assert fields(log, "ended").any() and fields(log, "bootstraps").any()


@pytest.mark.parametrize("rule", ["none", "max", "mean"])
def test_the_learner_rebuilds_the_stacks_that_each_decision_has_seen(rule: str) -> None:
    log, session = play(GAMES, 3, rule, 0.5, unrolls=6)
    for index, rows in enumerate(log.delivered):
        unrolls = LAYOUT.arrays(rows)
        rebuilt = rebuild_stacks(torch.from_numpy(unrolls["frames"]), torch.from_numpy(unrolls["dones"]).bool())
        seen = np.stack(session.inference.stacks[index * STEPS : (index + 1) * STEPS + 1])
        np.testing.assert_array_equal(rebuilt.numpy().reshape(-1), seen.reshape(-1))


def test_finished_games_and_the_oldest_weights_are_stored() -> None:
    log, _ = play(GAMES, 2, "max", 0.3, unrolls=6)
    versions = [min(100 - number % 7 for number in range(u * STEPS, (u + 1) * STEPS)) for u in range(6)]
    assert fields(log, "weight_version")[0].tolist() == versions
    lengths = fields(log, "game_lengths")[0]
    wanted = [-(-ending.frames // OPTIONS.skipped_frames) for ending in GAMES[0]]
    found = lengths[lengths > 0].tolist()
    assert found == (wanted * 9)[: len(found)] and len(found) > 3
    returns = fields(log, "game_returns")[0][lengths > 0]
    assert returns[0] == pytest.approx(sum(range(1, 14)) / 100)


def test_the_rewards_of_an_episode_are_counted_once() -> None:
    """With actions in another order than their decisions, too."""
    log, _ = play([[Ending(60)]], 4, "mean", 0.8, unrolls=4)
    first = next(at for at, event in enumerate(log.events[0]) if event.kind == "effect")
    frames = [event.frame for event in log.events[0][first:] if event.frame is not None]
    end = next(index for index, frame in enumerate(frames) if frame.ended)
    last = int(np.flatnonzero(fields(log, "ended")[0])[0])
    assert fields(log, "durations")[0, : last + 1].sum() * OPTIONS.skipped_frames == end + 1
