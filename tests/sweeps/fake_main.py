"""Replaces main.py in tests of sweeps: it makes the files of a run quickly, without a game.

--gamma chooses what it does: 0.5 fails, 0.6 waits for a file "go" in its results folder, other values finish.
With --stop_at_return it finishes after half of its steps, at that mean return.
"""

import json
import pickle
import signal
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a script

from options.command_line import UNSET
from tests.run_files.some_checkpoint import some_content, some_progress


def main(flags: Mapping[str, str]) -> None:
    place, steps = Path(flags["results_dir"]), int(flags["environment_max_steps"])
    with (place / "starts.txt").open("a") as starts:
        starts.write(f"{flags['op_mode']} {flags.get('load_model_url', '')}\n")

    folder = place / f"Game_{len(list(place.glob('Game_*'))) + 1}"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.json").write_text("{}")

    def end_at(agent_steps: int, word: str, mean: float = 0.0) -> None:
        report = {"agent_steps": agent_steps, "seconds": 2.0, "return_mean": -float(flags["seed"]), "return_max": 7.0}
        (folder / "metrics.jsonl").write_text(json.dumps(report) + "\n")
        write_checkpoint(folder / "checkpoints" / "checkpoint_0000000001.pt", agent_steps, [mean] * 100)
        print(f"{word} at {agent_steps} agent steps", flush=True)
        raise SystemExit(0)

    def stop(number: int, frame: FrameType | None) -> None:
        end_at(steps // 2, "stopped")

    signal.signal(signal.SIGTERM, stop)
    print("done 0.0%  steps 0", flush=True)
    if flags["gamma"] == "0.5":
        print("the last words", flush=True)
        raise SystemExit(3)
    deadline = time.monotonic() + 200
    while flags["gamma"] == "0.6" and not (place / "go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    if flags["stop_at_return"] != UNSET:
        end_at(steps // 2, "finished", float(flags["stop_at_return"]))
    end_at(steps, "finished")


def write_checkpoint(path: Path, agent_steps: int, returns: Sequence[float] = ()) -> None:
    """Write the format of torch.save without torch, which takes seconds to load."""
    progress = {**some_progress(agent_steps, 1), "recent_returns": list(returns)}
    content = {"format_version": 4, **some_content(1, progress=progress)}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("checkpoint/data.pkl", pickle.dumps(content, protocol=2))
        file.writestr("checkpoint/version", "3\n")


if __name__ == "__main__":
    given = [word.partition("=") for word in sys.argv[1:]]
    main({name.lstrip("-"): value for name, _, value in given})
