"""Connects a process to a cluster.

`python -m cluster.find_cluster <address>` tries it, and prints one line of JSON: the head's address, or what is wrong.
"""

import json
import logging
import sys

import ray

NOT_HERE = (
    "no cluster runs on this machine; ray start --head, or ray start --address=<head>:6379 to join one, would be right."
)


def connect(address: str) -> None:
    """Connect this process to the cluster, through the node of this machine. A ConnectionError says why it cannot."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConnectionError(_why(error, address)) from None


def _why(error: Exception, address: str) -> str:
    text = " ".join(str(error.__cause__ or error).split())
    if "any running Ray instance" in text:
        return NOT_HERE
    if "ersion mismatch" in text:
        return f"{text} The same versions on all machines would be right."
    if "resolve node to connect to" in text:
        return f"this machine is none of its nodes; ray start --address={address} would be right."
    return f"its head does not answer ({text[:300]}); a head that runs would be right."


def main(address: str) -> None:
    try:
        connect(address)
        answer = {"address": ray.get_runtime_context().gcs_address}
    except ConnectionError as error:
        answer = {"problem": str(error)}
    print(json.dumps(answer), flush=True)  # Ray may end the process before Python does


if __name__ == "__main__":
    main(sys.argv[1])
