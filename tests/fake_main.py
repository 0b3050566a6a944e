"""Stands in for main.py where a sweep is tested: it makes the files of a run without a game, in no time.

What it does is told by --gamma: .5 fails, .6 waits for a file "go" in its results folder, anything else finishes.
"""

import json
import signal
import sys
import time
from pathlib import Path

words = [word.partition("=") for word in sys.argv[1:]]
flags = {name.lstrip("-"): value for name, _, value in words}
place, steps = Path(flags["results_dir"]), int(flags["environment_max_steps"])
with (place / "starts.txt").open("a") as starts:
    starts.write(f"{flags['op_mode']} {flags.get('load_model_url', '')}\n")

folder = place / f"Game_{len(list(place.glob('Game_*'))) + 1}"
(folder / "checkpoints").mkdir(parents=True)
(folder / "config.json").write_text("{}")


def end_at(agent_steps: int, word: str) -> None:
    report = {"agent_steps": agent_steps, "seconds": 2.0, "return_mean": -float(flags["seed"]), "return_max": 7.0}
    (folder / "metrics.jsonl").write_text(json.dumps(report) + "\n")
    (folder / "checkpoints" / "checkpoint_0000000001.pt").write_bytes(b"weights")
    print(f"{word} at {agent_steps} agent steps", flush=True)
    raise SystemExit(0)


signal.signal(signal.SIGTERM, lambda number, frame: end_at(steps // 2, "stopped"))
print("done 0.0%  steps 0", flush=True)
if flags["gamma"] == "0.5":
    print("the last words", flush=True)
    raise SystemExit(3)
deadline = time.monotonic() + 60
while flags["gamma"] == "0.6" and not (place / "go").exists() and time.monotonic() < deadline:
    time.sleep(0.01)
end_at(steps, "finished")
