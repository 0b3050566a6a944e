"""Connects to a cluster and prints its address, or what is wrong, as one line of JSON.

`python -m sweeps.on_cluster.probe auto`
"""

import json
import logging
import sys

import ray


def main(address: str) -> dict[str, str]:
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except Exception as error:  # Ray raises all kinds of errors, and each one means that the cluster cannot be used
        text = " ".join(str(error).split())
        if "ersion mismatch" in text:
            return {"problem": f"it has another version of Ray or Python ({text[:200]}); the same would be right."}
        if "token" in text.lower():
            return {"problem": "its head refuses this token; the RAY_AUTH_TOKEN of the head would be right."}
        if isinstance(error, ConnectionError):
            if address == "auto":
                return {"problem": "no Ray runs here; ray start --head on one machine of the cluster would be right."}
            return {
                "problem": "what listens there is no head of Ray, or one with another token; the address that ray "
                "start --head printed, with the RAY_AUTH_TOKEN of the head if it has one, would be right."
            }
        return {"problem": f"{text[:200] or type(error).__name__}."}
    return {"address": str(ray.get_runtime_context().gcs_address)}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
