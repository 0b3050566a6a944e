"""Checks before a run on a cluster starts: Ray is installed, and the cluster answers."""

import importlib.metadata
import os
import re
import socket
import subprocess
import sys

from cluster.node_actor import ANSWER, ROOT
from option_flags import Config
from options.rules import UsageError

LEAST_VERSION = (2, 60)
CONNECT_SECONDS, PROBE_SECONDS = 5.0, 60.0
# Settings of Ray by which it gives up in seconds where it would try for a minute.
QUICK_ANSWERS = {"RAY_NUM_REDIS_GET_RETRIES": "3", "RAY_gcs_server_request_timeout_seconds": "10"}
TOKEN = (
    "the authentication token is missing, or its head refuses it; RAY_AUTH_MODE=token, and the head's token in "
    "RAY_AUTH_TOKEN or ~/.ray/auth_token, would be right."
)


def check_combinations(config: Config) -> None:
    """Raise a UsageError for options that do not go together with --cluster."""
    if config.run.reproducible:
        why = "takes unrolls as they arrive, which is never the same twice; without --reproducible would be right."
    elif config.environment.in_real_time:
        why = "needs games that wait for their workers; without --interaction=realtime would be right."
    elif config.workers.inference == "learner" and not config.cluster.local_workers:
        why = "with --nolocal_workers leaves an inference server nothing to do; --inference=worker would be right."
    else:
        return
    raise UsageError(f"--cluster={config.cluster.cluster} {why}")


def check_cluster(address: str) -> None:
    """Raise a UsageError that says why a cluster cannot be used."""
    given = f"--cluster={address}"
    _check_ray(given)
    head = os.environ.get("RAY_ADDRESS", "auto") if address == "auto" else address  # Ray looks there first, too
    if re.search(r"^[^/]*:\d+$", head):
        _check_port(given, head)
    if problem := _problem(address):
        raise UsageError(f"{given} cannot be used: {problem}")


def _check_ray(given: str) -> None:
    wanted = ".".join(map(str, LEAST_VERSION))
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        raise UsageError(f"{given} needs the package ray; run pip install 'ray>={wanted}'.") from None
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < LEAST_VERSION:
        raise UsageError(f"{given} needs Ray {wanted} or newer, not {version}; run pip install -U ray.")


def _check_port(given: str, head: str) -> None:
    """Ray itself would try for two minutes."""
    host, _, port = head.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise UsageError(
            f"{given} does not answer ({getattr(error, 'strerror', None) or error}); the address that ray start --head "
            "printed, or auto on a machine of the cluster, would be right."
        ) from None


def _problem(address: str) -> str:
    """What is wrong, or nothing, from a process of its own: the learner never loads Ray."""
    command = [sys.executable, "-m", "cluster.nodes", address]
    environment = {**os.environ, **QUICK_ANSWERS}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"Ray did not answer within {PROBE_SECONDS:g} seconds; a head that runs would be right."
    if re.search("Unauthenticated|AuthenticationError", done.stderr):  # Ray says so on its way only
        return TOKEN
    if answer := re.search(f"^{ANSWER}(.*)$", done.stdout, re.MULTILINE):  # between lines of Ray's own
        return answer[1]
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return f"Ray failed ({lines[-1] if lines else f'exit code {done.returncode}'})."
