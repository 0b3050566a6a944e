"""What a run on a cluster cannot start with is one sentence."""

import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from cluster.check import TOKEN_REFUSED, check_cluster, check_combinations
from cluster.code_version import ROOT, code_version
from option_flags import Config
from options.rules import UsageError


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"reproducible": True}, "without --reproducible"),
        ({"interaction": "realtime"}, "without --interaction=realtime"),
        ({"inference": "learner", "local_workers": False}, "--inference=worker"),
    ],
)
def test_what_does_not_go_together(flags: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=f"^--cluster=auto .*{words} would be right"):
        check_combinations(Config.from_flags({"cluster": "auto", **flags}))
    check_combinations(Config.from_flags({"cluster": "auto"}))


def test_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package ray; run pip install 'ray>=2.60'"):
        check_cluster("auto")


def test_an_old_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.9.3")
    with pytest.raises(UsageError, match="needs Ray 2.60 or newer, not 2.9.3"):
        check_cluster("auto")


def test_a_missing_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="needs the token of the cluster; RAY_AUTH_TOKEN"):
        check_cluster("auto")


@pytest.mark.parametrize(("mode", "asked"), [(None, 2), ("disabled", 1)])
def test_the_token_of_this_machine_is_tried_where_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str | None, asked: int
) -> None:
    token = tmp_path / "auth_token"
    token.write_text("a" * 32)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    monkeypatch.setenv("RAY_AUTH_MODE", mode or "")  # so that it is restored after the test
    if mode is None:
        monkeypatch.delenv("RAY_AUTH_MODE")
    modes = []

    def head_with_a_token(*args: object, **more: object) -> "subprocess.CompletedProcess[str]":
        modes.append(os.environ.get("RAY_AUTH_MODE"))
        accepted = '{"address": "10.0.0.1:6379", "own": "10.0.0.1"}'
        refused = json.dumps({"problem": TOKEN_REFUSED})
        return subprocess.CompletedProcess([], 0, accepted if modes[-1] == "token" else refused, "")

    monkeypatch.setattr(subprocess, "run", head_with_a_token)
    if mode is None:
        assert check_cluster("auto") == "10.0.0.1:6379"
    else:
        with pytest.raises(UsageError, match="cannot be used: its head refuses the authentication token"):
            check_cluster("auto")
    assert modes == [mode, "token"][:asked]


def test_a_port_where_nobody_listens() -> None:
    with pytest.raises(UsageError, match="does not answer"):
        check_cluster("127.0.0.1:1")


@pytest.mark.parametrize(
    ("printed", "words"), [("", "Ray failed"), ('{"problem": "it is asleep."}', "cannot be used: it is asleep")]
)
def test_what_the_probe_says(monkeypatch: pytest.MonkeyPatch, printed: str, words: str) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *args, **more: subprocess.CompletedProcess(args, 1, printed, ""))
    with pytest.raises(UsageError, match=words):
        check_cluster("auto")


def test_the_version_changes_with_any_source_file(tmp_path: Path) -> None:
    for path in [ROOT / "option_flags.py", *ROOT.glob("workers/**/*.py")]:
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    before = code_version(tmp_path)
    (tmp_path / "workers" / "notes.txt").write_text("no source file")
    assert code_version(tmp_path) == before
    (tmp_path / "workers" / "inference" / "server.py").write_text("other = 1\n")
    assert code_version(tmp_path) != before


def test_a_machine_that_belongs_to_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    found = pytest.importorskip("cluster.find_cluster")

    def find_none(address: str) -> str:
        raise ConnectionError(f"no cluster at {address}")

    monkeypatch.setattr(found, "canonicalize_bootstrap_address_or_die", find_none)
    assert found.probe("auto") == {"problem": found.NOT_HERE}


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A head without nodes that has not written what it is."""
    found = pytest.importorskip("cluster.find_cluster")
    head = SimpleNamespace(
        get_all_node_info=lambda timeout: {}, internal_kv_get=lambda key, *, namespace, timeout: None
    )
    monkeypatch.setattr(found, "canonicalize_bootstrap_address_or_die", lambda address: "10.0.0.1:6379")
    monkeypatch.setattr(found, "GcsClient", lambda address: head)
    return head


def test_a_head_that_is_still_starting(head: SimpleNamespace) -> None:
    found = pytest.importorskip("cluster.find_cluster")
    assert found.probe("auto") == {"problem": "its head is still starting; a few seconds later would be right."}


@pytest.mark.parametrize(
    ("text", "words"),
    [("RPC error: Unauthenticated", "refuses the authentication token"), ("no route", "does not answer (no route)")],
)
def test_a_head_that_refuses(head: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, text: str, words: str) -> None:
    """Ray's client asks for the number of the cluster when it is made."""
    found = pytest.importorskip("cluster.find_cluster")

    def refuse(address: str) -> None:
        raise OSError(text)

    monkeypatch.setattr(found, "GcsClient", refuse)
    assert words in found.probe("auto")["problem"]


def test_a_cluster_of_another_version(head: SimpleNamespace) -> None:
    found = pytest.importorskip("cluster.find_cluster")
    versions = json.dumps({"ray_version": "2.1", "python_version": "3.9.1"}).encode()
    head.internal_kv_get = lambda key, *, namespace, timeout: versions
    assert re.fullmatch(
        r"it runs Ray 2\.1 with Python 3\.9\.1, not Ray \S+ with Python \S+ as this process; the same versions on all "
        r"machines would be right\.",
        found.probe("auto")["problem"],
    )
