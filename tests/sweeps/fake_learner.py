"""Replaces main.py in tests of searches: it reports a mean return ten times, without a game.

The mean return is 1000 × --lr × the fraction of the steps. With --gamma=0.5 it fails. With an --lr below 0.002 it waits
at half of its steps until it is stopped; with --gamma=0.6 until then or until there is a file "go" in its folder.
It saves at half of its steps and at the end, with --save_replay also a file of nine megabytes, which it then needs to
continue.
"""

import json
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # it is run as a script

from tests.sweeps.fake_main import write_checkpoint

HOPELESS = 0.002
REPLAYS = bytes(range(256)) * 36_000


class FakeRun:
    def __init__(self, flags: Mapping[str, str]) -> None:
        self.flags = flags
        self.place = Path(flags["results_dir"])
        self.end = int(flags["environment_max_steps"])
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
        with (self.place / "starts.txt").open("a") as starts:
            starts.write(f"{self.flags['op_mode']} {self.flags.get('load_model_url', '')}\n")
        print("done 0.0%  steps 0", flush=True)
        if self.flags.get("gamma") == "0.5":
            raise SystemExit(3)
        while self.steps < self.end:
            self.steps += self.end // 10
            report = {"agent_steps": self.steps, "seconds": 2.0, "return_max": 7.0, "return_mean": self.mean_return}
            with (self.folder / "metrics.jsonl").open("a") as metrics:
                metrics.write(json.dumps(report) + "\n")
            if self.steps == self.end // 2:
                self.save()
                self.wait()
        self.save()

    @property
    def mean_return(self) -> float:
        return 1000 * float(self.flags["lr"]) * self.steps / self.end

    def wait(self) -> None:
        deadline = time.monotonic() + 200
        waits = float(self.flags["lr"]) < HOPELESS or self.flags.get("gamma") == "0.6"
        while waits and time.monotonic() < deadline and not (self.place / "go").exists():
            time.sleep(0.01)

    def stop(self, number: int, frame: FrameType | None) -> None:
        (self.place / "signals.txt").write_text(signal.Signals(number).name)
        self.save()
        raise SystemExit(0)

    def save(self) -> None:
        checkpoints = self.folder / "checkpoints"
        if "save_replay" in self.flags:
            (checkpoints / f"replays_{self.steps:010}.bin").write_bytes(REPLAYS)
        write_checkpoint(checkpoints / f"checkpoint_{self.steps:010}.pt", self.steps)


if __name__ == "__main__":
    given = [word.partition("=") for word in sys.argv[1:]]
    FakeRun({name.lstrip("-"): value for name, _, value in given}).play()
