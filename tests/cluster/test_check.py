"""What a run on a cluster cannot start with is one sentence."""

import importlib.metadata
import re
import subprocess
from pathlib import Path

import pytest

from cluster.check import check_cluster, check_combinations
from cluster.node_actor import ROOT, code_version
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
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(UsageError, match="needs the package ray; run pip install 'ray>=2.60'"):
        check_cluster("auto")


def test_an_old_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.9.3")
    with pytest.raises(UsageError, match="needs Ray 2.60 or newer, not 2.9.3"):
        check_cluster("auto")


@pytest.mark.parametrize(
    "said",
    ["W gcs_client.cc:210: Unauthenticated: RPC error", "ray.exceptions.AuthenticationError: no token"],
)
def test_a_token_that_is_refused_or_missing(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    failed = "cluster: its head does not answer (Failed to connect); a head that runs would be right."
    ended = subprocess.CompletedProcess([], 0, failed, f"{said}\n")
    monkeypatch.setattr(subprocess, "run", lambda *args, **more: ended)
    with pytest.raises(UsageError, match="cannot be used: the authentication token is missing, or its head refuses it"):
        check_cluster("auto")


def test_a_port_where_nobody_listens() -> None:
    with pytest.raises(UsageError, match="does not answer"):
        check_cluster("127.0.0.1:1")


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("", "Ray failed"),
        ("cluster: it is asleep.\nwhat Ray itself prints", "cannot be used: it is asleep"),
        ("cluster: it is asleep.", "cannot be used: it is asleep"),
    ],
)
def test_what_the_probe_says(monkeypatch: pytest.MonkeyPatch, printed: str, words: str) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *args, **more: subprocess.CompletedProcess(args, 1, printed, ""))
    with pytest.raises(UsageError, match=words):
        check_cluster("auto")


def test_the_version_changes_with_any_source_file(tmp_path: Path) -> None:
    for path in [ROOT / "main.py", ROOT / "option_flags.py", *ROOT.glob("workers/**/*.py")]:
        target = tmp_path / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes())
    before = code_version(tmp_path)
    (tmp_path / "workers" / "notes.txt").write_text("no source file")
    assert code_version(tmp_path) == before
    (tmp_path / "workers" / "realtime" / "player.py").write_text("other = 1\n")
    assert code_version(tmp_path) != before


@pytest.mark.parametrize(
    ("raised", "cause", "words"),
    [
        (
            "Could not find any running Ray instance. Please …",
            None,
            "no cluster runs on this machine; ray start --head",
        ),
        (
            "Failed to connect",
            "No node info found when trying to resolve node to connect to.",
            "this machine is no node of it; ray",
        ),
        ("Failed to connect", "Version mismatch: Ray: 2.1\n Python: 3.9.1", "The same versions on all machines would"),
        ("no route", None, "its head does not answer (no route); a head that runs would be right."),
    ],
)
def test_why_a_process_cannot_connect(
    monkeypatch: pytest.MonkeyPatch, raised: str, cause: str | None, words: str
) -> None:
    found = pytest.importorskip("cluster.nodes")

    def refuse(**_: object) -> None:
        raise ConnectionError(raised) from (RuntimeError(cause) if cause else None)

    monkeypatch.setattr(found.ray, "init", refuse)
    with pytest.raises(UsageError, match=re.escape(words)) as error:
        found.connect("10.0.0.1:6379")
    assert "\n" not in str(error.value)
