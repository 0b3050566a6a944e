"""Replaces main.py in tests of sweeps: it makes the files of a run quickly, without a game.

It reports ten times. The mean return is 1000 × --lr × the fraction of the steps, less the seed. It saves at half of its
steps and at the end, with --save_replay also a file of nine megabytes, which it then needs to continue. --gamma chooses
what else it does: 0.5 fails at once; 0.6 waits at half of its steps for a file "go" in its folder, or to be stopped, as
an --lr below 0.002 does. With --stop_at_return it finishes after half of its steps, at that mean return.
"""

import json
import pickle
import re
import signal
import sys
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a script

from options.command_line import UNSET
from tests.run_files.some_checkpoint import some_content, some_progress

CODE = Path(__file__).resolve().parents[2] / "run_files" / "checkpoint.py"  # which loads torch
FORMAT_VERSION = int(re.findall(r"^FORMAT_VERSION = (\d+)", CODE.read_text(encoding="utf-8"), re.MULTILINE)[0])
HOPELESS = 0.002
REPLAYS = bytes(range(256)) * 36_000


class FakeRun:
    def __init__(self, flags: Mapping[str, str]) -> None:
        self.flags = flags
        self.place = Path(flags["results_dir"])
        self.end = int(flags["environment_max_steps"])
        with (self.place / "starts.txt").open("a") as starts:
            starts.write(f"{flags['op_mode']} {flags.get('load_model_url', '')}\n")
        self.folder = self.place / f"Game_{len(list(self.place.glob('Game_*'))) + 1}"
        (self.folder / "checkpoints").mkdir(parents=True)
        (self.folder / "config.json").write_text("{}")
        parent = flags.get("load_model_url")
        self.steps = self.load(Path(parent)) if parent else 0

    def load(self, parent: Path) -> int:
        newest = max((parent / "checkpoints").glob("checkpoint_*.pt"))
        if "save_replay" in self.flags:
            replays = (newest.parent / newest.name.replace("checkpoint", "replays")).with_suffix(".bin")
            assert replays.read_bytes() == REPLAYS
        return int(newest.stem.partition("_")[2])

    def play(self) -> None:
        signal.signal(signal.SIGTERM, self.stop)
        signal.signal(signal.SIGINT, self.stop)
        signal.signal(signal.SIGUSR1, lambda number, frame: (self.place / "saved_now").touch())
        print("done 0.0%  steps 0", flush=True)
        if self.flags.get("gamma") == "0.5":
            print("the last words", flush=True)
            raise SystemExit(3)
        goal = self.flags["stop_at_return"]
        while self.steps < self.end:
            self.steps = min(self.end, self.steps + self.end // 10)
            report = {"agent_steps": self.steps, "seconds": 2.0, "return_max": 7.0, "return_mean": self.mean_return}
            with (self.folder / "metrics.jsonl").open("a") as metrics:
                metrics.write(json.dumps(report) + "\n")
            if self.steps == self.end // 2:
                self.save(None if goal == UNSET else float(goal))
                if goal != UNSET:
                    return
                self.wait()
        self.save()

    @property
    def mean_return(self) -> float:
        return 1000 * float(self.flags.get("lr", 0.01)) * self.steps / self.end - float(self.flags["seed"])

    def wait(self) -> None:
        deadline = time.monotonic() + 200
        waits = self.flags.get("gamma") == "0.6" or float(self.flags.get("lr", 1)) < HOPELESS
        while waits and time.monotonic() < deadline and not (self.place / "go").exists():
            time.sleep(0.01)

    def stop(self, number: int, frame: FrameType | None) -> None:
        (self.place / "signals.txt").write_text(signal.Signals(number).name)
        self.save()
        raise SystemExit(0)

    def save(self, reached: float | None = None) -> None:
        checkpoints = self.folder / "checkpoints"
        if "save_replay" in self.flags:
            (checkpoints / f"replays_{self.steps:010}.bin").write_bytes(REPLAYS)
        write_checkpoint(checkpoints / f"checkpoint_{self.steps:010}.pt", self.steps, reached)


def write_checkpoint(path: Path, agent_steps: int, reached: float | None = None) -> None:
    """Write the format of torch.save without torch, which takes seconds to load."""
    progress = {
        **some_progress(agent_steps, 1),
        "reached_goal": None if reached is None else ["return", reached],
    }
    content = {"format_version": FORMAT_VERSION, **some_content(1, progress=progress)}
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("checkpoint/data.pkl", pickle.dumps(content, protocol=2))
        file.writestr("checkpoint/version", "3\n")


if __name__ == "__main__":
    given = [word.partition("=") for word in sys.argv[1:]]
    FakeRun({name.lstrip("-"): value for name, _, value in given}).play()
