"""How often each batch of new unrolls is used, and how many updates a number of batches is enough for."""

from dataclasses import dataclass
from itertools import count


@dataclass(frozen=True)
class BatchUses:
    """The plan of a circular buffer (IMPACT): `slots` places for batches, which updates use in turn.

    A batch is used `uses` times, `slots` updates apart, and is then replaced by a new one. In the first round only,
    batches are used less often, by different numbers: so the places are not replaced all at once, and new batches are
    needed at a steady rate. With the defaults, each batch is used once.
    """

    slots: int = 1
    uses: int = 1

    @property
    def first_uses(self) -> tuple[int, ...]:
        """How often the first batch in each place is used."""
        spacing = max(1, self.uses // self.slots)
        return tuple(1 + place * spacing % self.uses for place in range(self.slots))

    def updates_of(self, batches: int) -> int:
        """How many updates can be made with this many batches."""
        if batches < self.slots:
            return batches  # the first round: each update takes a new batch
        # The updates that replace a first batch; each place is replaced again every `uses` rounds.
        replacing = sorted(rounds * self.slots + place for place, rounds in enumerate(self.first_uses))
        rounds, place = divmod(batches - self.slots, self.slots)
        return replacing[place] + rounds * self.uses * self.slots

    def batches_for(self, updates: int) -> int:
        """How many batches this many updates need."""
        return next(batches for batches in count() if self.updates_of(batches) >= updates)


ONCE = BatchUses()
