"""What every replay can do, whatever its way of choosing."""

from typing import Any, NamedTuple, Protocol

from replay.unroll_layout import Rows


class Drawn(NamedTuple):
    """What one draw tells of itself."""

    times_drawn: float  # mean over the drawn unrolls, this time included
    candidates: float = 1.0  # how many unrolls were looked at for each one drawn: λ, in whole unrolls
    distance_drawn: float | None = None  # means; None where nothing was ranked
    distance_candidates: float | None = None


class Replay(Protocol):
    """Keeps unrolls and gives its share of each batch.

    A queue is *fresh*: what it gives has never been learned from, and it takes new unrolls only while it has room.
    All others are *replayed*: they always have room, and forget some older one.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_fresh(self) -> bool: ...

    @property
    def share(self) -> int:
        """How many unrolls it gives to a batch."""

    @property
    def capacity(self) -> int: ...

    def __len__(self) -> int: ...

    def unrolls_needed(self) -> int:
        """How many more unrolls it needs before it can give its share."""

    def add(self, row: Rows) -> None:
        """Keep a copy of `row [nbytes]`."""

    def draw(self, out: Rows, updates: int) -> Drawn:
        """Write its share to `out [share, nbytes]`, no unroll twice; `updates` were made so far."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
