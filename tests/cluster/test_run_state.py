"""Commands to a run, without Ray: its actor is made in this process."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

import ray
from ray.exceptions import ActorDiedError

from cluster import run_state
from cluster.run_state import RunBoard, RunState, give_command, states


class Handle:
    """Calls the methods of an object as those of an actor, until that is killed."""

    def __init__(self, board: RunBoard) -> None:
        self.board, self.killed = board, False

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            return ActorDiedError() if self.killed else getattr(self.board, name)(*arguments)

        return SimpleNamespace(remote=call)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Handle]:
    """The actors that were made."""
    handles: list[Handle] = []

    def get(answer: Any, timeout: float) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    def make(name: str) -> Handle:
        handles.append(Handle(RunBoard()))
        return handles[-1]

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "kill", lambda handle: setattr(handle, "killed", True))
    monkeypatch.setattr(RunState, "_make_board", staticmethod(make))
    return handles


@pytest.fixture
def run(made: list[Handle]) -> RunState:
    run = RunState(1000.0)
    assert run.exchange([]) == ["status"] and not made, "its name is not known yet"
    run.status = {"run": "Pong_1", "line": "done 5%"}
    assert run.exchange(["node a plays"]) == ["status"]
    return run


def test_the_newest_state_is_shown(run: RunState, made: list[Handle]) -> None:
    run.status = {"run": "Pong_1", "line": "done 6%"}
    run.exchange(["node a plays"])
    shown = {"line": "done 6%", "begun": 1000.0, "details": ["node a plays"]}
    assert states({"Pong_1": made[0], "Pong_2": Handle(RunBoard())}) == {"Pong_1": shown}


def test_no_command_replaces_another(run: RunState, made: list[Handle]) -> None:
    for command in ("stop", "save", "stop"):
        made[0].board.give(command)
    assert not made[0].board.is_taken("save") and not made[0].board.is_taken("stop")
    assert run.exchange([]) == ["stop", "save", "status"]
    assert made[0].board.is_taken("save") and made[0].board.is_taken("stop")
    assert run.exchange([]) == ["status"]


def test_nothing_stays_of_a_run_that_ended(run: RunState, made: list[Handle]) -> None:
    run.remove()
    assert states({"Pong_1": made[0]}) == {}
    assert run.exchange([]) == [] and len(made) == 1, "the thread that reads commands may be late"
    assert give_command(made[0], "stop"), "it has ended already"


def test_an_actor_that_was_killed_is_replaced(run: RunState, made: list[Handle]) -> None:
    made[0].killed = True
    with pytest.raises(ActorDiedError):
        run.exchange([])
    assert run.exchange([]) == ["status"] and len(made) == 2


def test_a_command_that_is_not_read_is_taken_back(made: list[Handle], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_state, "ANSWER_SECONDS", 0.0)
    monkeypatch.setattr(run_state, "COMMAND_SECONDS", 0.0)
    handle = Handle(RunBoard())
    assert not give_command(handle, "stop")
    assert handle.board.exchange({}) == []
