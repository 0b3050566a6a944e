"""Helpers: values of --replay_parameters."""

import json
from typing import Any


def replays(*entries: dict[str, Any]) -> str:
    return json.dumps(entries)


def queue(ratio: float = 1.0, capacity: Any = 1) -> dict[str, Any]:
    return {"type": "queue", "capacity": capacity, "sample_ratio": ratio}


def standard(ratio: float = 1.0, capacity: Any = 100) -> dict[str, Any]:
    return {"type": "standard", "capacity": capacity, "sample_ratio": ratio}


def ranked(kind: str = "elite", **keys: Any) -> dict[str, Any]:
    return {"type": kind, "capacity": 100, "sample_ratio": 1.0, **keys}
