"""The reports, evaluations and games of a run and of the runs that it was resumed from: the data of its curves."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Series: TypeAlias = NDArray[np.float64]
Columns: TypeAlias = Mapping[str, Series]  # figures of reports by flat name, equally long; NaN where one has none
CHOSEN_NETWORK = "chosen_network"
EVALUATED = "eval_"  # prefix of the names of evaluation figures
EVALUATED_MEAN = f"{EVALUATED}return_mean"


class Curve(NamedTuple):
    """The points of one figure in the order of the reports. `x` and `y` are equally long."""

    x: Series
    y: Series


@dataclass(frozen=True)
class History:
    """The reports and games of a run and all its ancestors, oldest first."""

    folder: Path
    options: Mapping[str, Any]  # of the last run
    reports: Columns
    games: Curve  # agent steps when each game ended, and its return
    evaluations: Columns = field(default_factory=dict)
    ancestors: frozenset[Path] = frozenset()  # folders of the runs that it was resumed from, directly or indirectly
    weights_from: str | None = None  # the checkpoint whose weights its first run started from (--load_weights_only)

    def curve(self, name: str, x: str = "agent_steps") -> Curve:
        """The figure with this flat name (`time_shares/update`) over the figure `x`, where a report has both."""
        columns = self.evaluations if name.startswith(EVALUATED) else self.reports
        if x not in columns or name not in columns:
            return Curve(np.empty(0), np.empty(0))
        known = ~(np.isnan(columns[x]) | np.isnan(columns[name]))
        return Curve(columns[x][known], columns[name][known])

    @property
    def last(self) -> dict[str, float]:
        """The newest report."""
        return {name: float(column[-1]) for name, column in self.reports.items() if not np.isnan(column[-1])}

    @property
    def agent_steps(self) -> float:
        """The agent steps at the last report."""
        return self.last.get("agent_steps", 0.0)

    @property
    def return_window(self) -> int:
        """The number of games in the moving mean `return_mean`."""
        return int(self.options.get("avg_buff_size", 100))

    def names(self) -> list[str]:
        """The flat names of all figures in any report or evaluation."""
        return [*self.reports, *(name for name in self.evaluations if name.startswith(EVALUATED))]


def options_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flags, with `slots_per_worker` as the run chose it, so that it equals a run with this number as its flag.

    Beside them is the network that `--network=auto` has come to.
    """
    slots, network = (config.get("machine") or {}).get("slots_per_worker"), config.get("network")
    chosen = {"slots_per_worker": slots, CHOSEN_NETWORK: network if isinstance(network, str) else None}
    return {**config["options"], **{name: value for name, value in chosen.items() if value}}


def weights_of(config: Mapping[str, Any]) -> str | None:
    """The checkpoint whose weights the run of this config.json started from (--load_weights_only)."""
    origin = config.get("weights_from")
    found = origin.get("checkpoint") if isinstance(origin, Mapping) else None
    return found if isinstance(found, str) else None


def _is_folder(path: Path) -> bool:
    with suppress(OSError):  # a path of another user's may not be readable
        return path.is_dir()
    return False


def parent_of(folder: Path, config: Mapping[str, Any], limit: float) -> tuple[Path | None, float]:
    """The folder of the run that this one was resumed from, and the agent steps up to which its reports count."""
    parent = config.get("parent")
    if not isinstance(parent, Mapping):
        return None, limit
    named = Path(parent["run"])
    # The path is as it was given at that time. If the results folder was moved since, the parent lies beside the child.
    place = named if _is_folder(named) else folder.parent / named.name
    return place, min(limit, float(parent["agent_steps"]))
