"""Checks before a sweep on a cluster starts: Ray is installed, and the cluster answers."""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from options.rules import Rule, UsageError

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = Rule(
    str,
    "be auto, or the address of a head such as 192.0.2.1:6379",
    lambda value: re.fullmatch(r"auto|[\w.\[\]:-]+:[0-9]{1,5}", value) is not None,
    optional=True,
)
CONNECT_SECONDS, PROBE_SECONDS = 5.0, 60.0


def check_cluster(address: str) -> str:
    """The host:port of the head that `address` means. Raises a UsageError that says why it cannot be used."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"--cluster={address} needs the package ray; run pip install 'ray>=2.60'.")
    _check_token(address)
    if address != "auto":
        _check_port(address)
    answer = _probe(address)
    if "problem" in answer:
        raise UsageError(f"--cluster={address} cannot be used: {answer['problem']}")
    return answer["address"]


def _check_token(address: str) -> None:
    """Ray itself waits for a long time without a word if its token is missing."""
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        return
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    if not os.environ.get("RAY_AUTH_TOKEN") and not path.is_file():
        raise UsageError(
            f"--cluster={address} with RAY_AUTH_MODE=token needs the token of the cluster; RAY_AUTH_TOKEN=<token>, or "
            f"a copy of the head's token file at {path}, would be right."
        )


def _check_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(
            f"--cluster={address} does not answer ({why}); the address that ray start --head printed, or auto on a "
            "machine of the cluster, would be right."
        ) from None


def _probe(address: str) -> dict[str, str]:
    """Connect from a process of its own first: what is wrong may make Ray wait, print, or end its process."""
    command = [sys.executable, "-m", "sweeps.on_cluster.probe", address]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"problem": f"Ray did not answer within {PROBE_SECONDS:g} seconds; a head that runs would be right."}
    try:
        answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"problem": f"Ray failed ({lines[-1] if lines else f'exit code {done.returncode}'})."}
    return answer
