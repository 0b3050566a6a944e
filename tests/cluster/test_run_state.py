"""Commands to a run, with a dictionary in place of the store of Ray's head."""

import time
from typing import Any

import pytest

pytest.importorskip("ray")

from ray.experimental import internal_kv

from cluster import command, run_state
from cluster.run_state import OLD_SECONDS, RunState
from options.rules import UsageError


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> dict[bytes, bytes]:
    entries: dict[bytes, bytes] = {}

    def put(key: bytes, value: bytes, **others: Any) -> None:
        entries[key] = value

    monkeypatch.setattr(internal_kv, "_internal_kv_put", put)
    monkeypatch.setattr(internal_kv, "_internal_kv_get", lambda key, **others: entries.get(key))
    monkeypatch.setattr(internal_kv, "_internal_kv_del", lambda key, **others: entries.pop(key, None))
    monkeypatch.setattr(
        internal_kv,
        "_internal_kv_list",
        lambda prefix, **others: [key for key in entries if key.startswith(prefix)],
    )
    return entries


@pytest.fixture
def board(store: dict[bytes, bytes]) -> RunState:
    made = RunState(1000.0)
    made.status = {"run": "Pong_1", "line": "done 5%"}
    return made


def test_no_command_replaces_another(board: RunState) -> None:
    run_state.give_command("Pong_1", "stop")
    run_state.give_command("Pong_1", "save")
    run_state.give_command("Pong_2", "stop")
    assert board.exchange([]) == ["save", "stop", "status"]
    assert run_state.is_taken("Pong_1", "save") and run_state.is_taken("Pong_1", "stop")
    assert board.exchange([]) == ["status"]
    assert not run_state.is_taken("Pong_2", "stop")


def test_nothing_stays_of_a_run_that_ended(board: RunState, store: dict[bytes, bytes]) -> None:
    board.exchange([])
    run_state.give_command("Pong_1", "save")
    assert list(run_state.runs()) == ["Pong_1"]
    assert run_state.runs()["Pong_1"]["begun"] == 1000.0, "the beginning of the run, not that of a new gateway"
    board.remove()
    assert not store
    assert board.exchange([]) == [] and not store, "the thread that reads commands may be late"


def test_an_old_run_that_was_killed_is_forgotten(
    board: RunState, store: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    board.exchange([])
    run_state.give_command("Pong_1", "stop")
    now = time.time() + OLD_SECONDS + 1
    monkeypatch.setattr(time, "time", lambda: now)
    RunState(0.0)
    assert not store


def test_a_command_that_is_not_read_is_taken_back(
    board: RunState, store: dict[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "ANSWER_SECONDS", 0.0)
    run_state.give_command("Pong_1", "stop")
    with pytest.raises(UsageError, match="has not read the command .* taken back; python -m cluster.command status"):
        command._wait_until_taken("Pong_1", "stop")
    assert not store
