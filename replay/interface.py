"""The interface of every replay."""

from typing import Any, NamedTuple, Protocol

from replay.row_layout import Rows


class Drawn(NamedTuple):
    """Figures of one draw, for the reports. A mix adds the last two."""

    times_drawn: float  # how often these unrolls have been drawn, this draw included: mean
    candidates: float = 1.0  # candidates for each drawn unroll: λ, rounded to a whole number of candidates
    distance_drawn: float | None = None  # mean of the drawn unrolls; None if nothing was ranked
    distance_candidates: float | None = None  # mean of all candidates
    age: float = 0.0  # mean policy lag of the unrolls, in updates
    seconds: float = 0.0  # that the draw took


class Replay(Protocol):
    """Holds unrolls and gives its share to each batch.

    A queue is *fresh*: the learner has never seen the unrolls that it gives, and a full queue accepts no more unrolls.
    All other replays are *replayed*: when full, they replace an older unroll by the new one.
    """

    name: str
    is_fresh: bool
    share: int  # unrolls that it gives to each batch
    capacity: int

    def __len__(self) -> int: ...

    def unrolls_needed(self) -> int:
        """How many more unrolls it needs before the next draw; 0 if it can be drawn from now."""

    def add(self, row: Rows) -> None:
        """Keep a copy of `row [nbytes]`."""

    def draw(self, out: Rows, updates: int) -> Drawn:
        """Write `share` different unrolls to `out [share, nbytes]`; the learner has made `updates` so far."""

    def state_dict(self) -> dict[str, Any]:
        """Unrolls, counters and random generators. Write them to the file before the next `add`."""

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
