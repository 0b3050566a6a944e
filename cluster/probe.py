"""Tries to reach a cluster, for `check.py`: prints one line of JSON with its address, or with what is wrong."""

import json
import sys

import ray
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._raylet import GcsClient  # type: ignore[attr-defined]

CALL_SECONDS = 10.0
NOT_HERE = (
    "no cluster runs on this machine; ray start --head, or ray start --address=<head>:6379 to join one, would be right."
)


def probe(address: str) -> dict[str, str]:
    """Ask the head for its nodes, which also checks the token."""
    try:
        found = canonicalize_bootstrap_address_or_die(address)
    except (ConnectionError, ValueError):
        return {"problem": NOT_HERE}
    try:
        nodes = GcsClient(address=found).get_all_node_info(timeout=CALL_SECONDS)
    except Exception as error:  # of several kinds, some of them private to Ray
        return {"problem": _why(error)}
    own = {address for node in nodes.values() if node.state == 0 for address in [node.node_manager_address]}
    host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call]
    if host not in own and not own & {"127.0.0.1", "localhost"}:
        return {"problem": f"this machine ({host}) is none of its nodes; ray start --address={found} would be right."}
    return {"address": found}


def _why(error: Exception) -> str:
    text = str(error)
    if "nauthenticated" in text or "UNAUTHENTICATED" in text or "token" in text.lower():
        return (
            "its head refuses the authentication token; RAY_AUTH_MODE=token, and the head's token in RAY_AUTH_TOKEN "
            "or ~/.ray/auth_token, would be right."
        )
    line = (text.strip().splitlines() or [type(error).__name__])[0]
    return f"its head does not answer ({line}); a head that runs would be right."


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
