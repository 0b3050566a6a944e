"""What the launcher does about nodes that do not answer, without Ray."""

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray")

from ray.exceptions import ActorUnavailableError

from cluster.nodes import ANSWER_SECONDS
from learners.on_cluster.node_learner import State
from learners.on_cluster.started_on_nodes import LOST, SeatedLearner, StartedOnNodes

RUNNING, ENDED = State(None, b"", b"", ""), State(0, b"", b"", "")


def exit_codes(monkeypatch: pytest.MonkeyPatch, answers: list[Any]) -> list[int]:
    """Those of one learner whose node answers like this, a second apart; the last answer comes again and again."""
    now = [100.0]

    def get(answer: Any) -> Any:
        now[0] += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    def next_answer() -> Any:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr("learners.on_cluster.started_on_nodes.ray.get", get)
    monkeypatch.setattr("learners.on_cluster.started_on_nodes.ray.wait", lambda asked, **_: (asked, []))
    monkeypatch.setattr("learners.on_cluster.started_on_nodes.time.monotonic", lambda: now[0])
    monkeypatch.setattr("learners.on_cluster.started_on_nodes.time.sleep", lambda seconds: None)
    actor = SimpleNamespace(state=SimpleNamespace(remote=next_answer))
    commands: Any = SimpleNamespace(show=lambda *_: None)
    return StartedOnNodes([SeatedLearner(0, "a", actor)], None, commands).wait()  # type: ignore[arg-type]


def test_a_learner_outlasts_short_cuts_of_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = [ActorUnavailableError("the connection was reset", None)] * int(ANSWER_SECONDS - 10)
    assert exit_codes(monkeypatch, [RUNNING, *cut, RUNNING, *cut, ENDED]) == [0]


def test_a_learner_is_lost_after_a_long_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_codes(monkeypatch, [RUNNING, ActorUnavailableError("the connection was reset", None)]) == [LOST]
    assert capsys.readouterr().out == f"learner 0: its node a did not answer for {ANSWER_SECONDS:g} seconds\n"
