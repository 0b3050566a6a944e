"""Finds a cluster, for the gateway and, in a process of its own, for `check.py`.

`python -m cluster.find_cluster <address>` prints one line of JSON: the cluster's address, or what is wrong.
"""

import json
import platform
import sys
from typing import Any

import psutil
import ray
from ray._common.usage.usage_constants import CLUSTER_METADATA_KEY
from ray._private.ray_constants import KV_NAMESPACE_CLUSTER
from ray._private.services import canonicalize_bootstrap_address_or_die
from ray._private.utils import check_version_info
from ray._raylet import GcsClient  # type: ignore[attr-defined]

from cluster.check import TOKEN_REFUSED
from cluster.task_errors import first_line

CALL_SECONDS = 10.0
ALIVE = 0  # the state of a node in Ray's table
NOT_HERE = (
    "no cluster runs on this machine; ray start --head, or ray start --address=<head>:6379 to join one, would be right."
)


def probe(address: str) -> dict[str, str]:
    """Ask the head for its nodes, which also checks the token. `own` is this machine's address in the cluster."""
    try:
        found = canonicalize_bootstrap_address_or_die(address)
    except (ConnectionError, ValueError):
        return {"problem": NOT_HERE}
    try:
        client = GcsClient(address=found)
        nodes = client.get_all_node_info(timeout=CALL_SECONDS)
        metadata = client.internal_kv_get(CLUSTER_METADATA_KEY, namespace=KV_NAMESPACE_CLUSTER, timeout=CALL_SECONDS)
    except Exception as error:  # of several kinds, some of them private to Ray
        return {"problem": _why(error)}
    if metadata is None:
        return {"problem": "its head is still starting; a few seconds later would be right."}
    versions = json.loads(metadata)
    try:
        check_version_info(versions, found)  # ray.init does so too
    except RuntimeError:
        return {
            "problem": f"it runs Ray {versions['ray_version']} with Python {versions['python_version']}, not Ray "
            f"{ray.__version__} with Python {platform.python_version()} as this process; the same versions on all "
            "machines would be right."
        }
    here = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    own = {node.node_manager_address for node in nodes.values() if node.state == ALIVE} & here
    if not own:
        return {"problem": f"this machine is none of its nodes; ray start --address={found} would be right."}
    return {"address": found, "own": min(own)}


def connect(address: str, **options: Any) -> None:
    """Connect this process to the cluster, through the node of this machine."""
    found = probe(address)
    if "problem" in found:
        raise ConnectionError(found["problem"])
    ray.init(address=found["address"], _node_ip_address=found["own"], log_to_driver=False, **options)


def _why(error: Exception) -> str:
    text = str(error)
    if "unauthenticated" in text.lower() or "token" in text.lower():
        return TOKEN_REFUSED
    return f"its head does not answer ({first_line(error)}); a head that runs would be right."


if __name__ == "__main__":
    print(json.dumps(probe(sys.argv[1])))
