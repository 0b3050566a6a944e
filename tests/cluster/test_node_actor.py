"""What a node says that cannot play, without Ray: the actor is made in this process."""

import asyncio
import pickle
import sys
from pathlib import Path

import pytest

from cluster.node_actor import CHECKOUT_VARIABLE, ROOT, NodeActor, code_version
from cluster.node_player import PlayerSpec
from option_flags import Config
from replay.unroll_layout import UnrollLayout
from tests.catch import make_catch
from tests.training.catch_runs import CATCH
from wrappers.make_environment import make_environment

LAYOUT = UnrollLayout(unroll_length=1, frame_stack=1, frame_shape=(1, 1, 1), action_count=1)
SPEC = pickle.dumps(PlayerSpec(Config.from_flags(CATCH), make_catch, LAYOUT, 0, {}))


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The actor changes its process."""
    monkeypatch.delenv(CHECKOUT_VARIABLE, raising=False)
    monkeypatch.chdir(Path.cwd())
    monkeypatch.setattr(sys, "path", [*sys.path])


def problem(spec: bytes = SPEC, root: Path = ROOT, version: str = code_version()) -> str | None:
    actor = NodeActor(str(root), version)
    return asyncio.run(actor.prepare(spec, seed=1, workers=1))


def test_no_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = problem(root=tmp_path)
    assert (
        said is not None
        and f"it has no checkout of this program at {tmp_path}; one there, or {CHECKOUT_VARIABLE}" in said
    )


def test_another_version_of_the_code() -> None:
    said = problem(version="0123456789abcdef")
    assert said is not None and "is another version" in said and "the same commit would be right" in said


def test_another_layout() -> None:
    said = problem()
    assert said is not None and "other observations or actions than the learner's" in said
    assert Path.cwd() == ROOT and sys.path[0] == str(ROOT), "its workers are found there"


def test_a_checkout_that_the_node_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHECKOUT_VARIABLE, str(ROOT))
    said = problem(root=Path("/nowhere"))
    assert said is not None and "other observations or actions" in said


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("ALE/NoSuchGame-v5", "it cannot make the games: --env=ALE/NoSuchGame-v5"),
        ("no_such_package:Game-v0", "no_such_package"),
    ],
)
def test_games_that_the_node_lacks(env: str, words: str) -> None:
    spec = PlayerSpec(Config.from_flags({**CATCH, "env": env}), make_environment, LAYOUT, 0, {})
    said = problem(pickle.dumps(spec))
    assert said is not None and words in said and "\n" not in said


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cluster.node_player", None)
    said = problem()
    assert said is not None and "pip install -r requirements.txt would be right" in said
