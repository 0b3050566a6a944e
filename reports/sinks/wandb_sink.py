"""Reports to Weights & Biases. Imported only with `--wandb`: the package is optional."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb

from run_files.metrics import Episode, Report, flat_numbers


class WandbSink:
    """Logs a run under the name of its folder."""

    def __init__(self, folder: Path, project: str, options: Mapping[str, Any]) -> None:
        # "allow": with WANDB_RUN_ID set, a resumed run continues the existing curves.
        self._run = wandb.init(project=project, name=folder.name, dir=str(folder), config=dict(options), resume="allow")

    def write(self, report: Report) -> None:
        numbers = flat_numbers(report)
        self._run.log(numbers, step=int(numbers["agent_steps"]))

    def episode(self, row: Episode) -> None:
        pass

    def close(self) -> None:
        self._run.finish()
