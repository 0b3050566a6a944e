"""The process behind `SomeNodes`: it starts a head without CPUs, and nodes as it is told.

Each line of its standard input is a command in JSON, and is answered with a line of JSON. At the end of the input, all
nodes end.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from ray.cluster_utils import Cluster

OBJECT_STORE = 100 << 20


def main() -> None:
    (Path(os.environ["RAY_TMPDIR"]) / "ray").mkdir(exist_ok=True)
    without = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    head = {**without, "num_cpus": 0, "object_store_memory": OBJECT_STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    print(json.dumps({"address": cluster.address}), flush=True)
    nodes: list[Any] = []
    try:
        for line in sys.stdin:
            command = json.loads(line)
            match command["do"]:
                case "add":
                    before = dict(os.environ)
                    os.environ.update(command["environment"])
                    nodes.append(cluster.add_node(num_cpus=command["cpus"], object_store_memory=OBJECT_STORE))
                    os.environ.clear()
                    os.environ.update(before)
                case "kill":
                    cluster.remove_node(nodes[command["index"]], allow_graceful=False)
            answer = {"index": len(nodes) - 1}
            if command["do"] == "raylet":
                (raylet,) = nodes[command["index"]].all_processes["raylet"]
                answer["pid"] = raylet.process.pid
            print(json.dumps(answer), flush=True)
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
