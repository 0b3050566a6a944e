"""How unrolls store vectors: each number in a small type that holds it exactly.

Everywhere else, a vector is float32, as the network reads it. Numbers of one type share a field of the unroll. The
zeros and ones that name one of n choices are stored as the index of the 1.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from replay.row_layout import on_device

# float32 holds every number of the other types. "choice": zeros and ones of which exactly one is 1. uint16 is missing,
# because PyTorch does not support it on every device.
Stored = Literal["float32", "uint8", "int8", "int16", "choice"]
STORED: tuple[Stored, ...] = get_args(Stored)
NUMBERS = tuple(stored for stored in STORED if stored != "choice")

BYTE_INDICES = 256  # choices with an index that fits into a byte

Selection = slice | NDArray[np.int64]  # of the numbers of a vector


class VectorPart(NamedTuple):
    """Neighbouring numbers of a vector that are stored alike."""

    stored: Stored
    size: int


class StoredVectors:
    """The fields of an unroll for vectors made of such parts, and how vectors are written there and read."""

    def __init__(self, parts: Sequence[VectorPart]) -> None:
        places = {stored: _places(parts, stored) for stored in STORED}
        self._numbers = {
            "vectors" if stored == "float32" else f"vectors_{stored}": (stored, _selection(places[stored]))
            for stored in NUMBERS
            if len(places[stored])
        }
        self._sizes = {name: len(places[stored]) for name, (stored, _) in self._numbers.items()}
        self.choice_sizes = np.array([size for stored, size in parts if stored == "choice"], np.int64)
        self._choice_places = _selection(places["choice"])
        self._choice_starts = np.cumsum(self.choice_sizes) - self.choice_sizes
        # Of each number of the choices: the choice that it belongs to, and the index that makes it 1.
        self._choice_of = np.repeat(np.arange(len(self.choice_sizes)), self.choice_sizes)
        self._index_of = np.arange(len(places["choice"])) - self._choice_starts[self._choice_of]
        # Read in this order, the numbers of all fields, one field after another, are the vector.
        order = np.argsort(np.concatenate(list(places.values())))
        self._order = None if (order == np.arange(len(order))).all() else order
        self.names = [name for name, _, _ in self.declared(1)]  # of the fields

    def declared(self, states: int) -> list[tuple[str, tuple[int, ...], str]]:
        """Name, shape and dtype of each field."""
        fields: list[tuple[str, tuple[int, ...], str]] = [
            (name, (states, self._sizes[name]), stored) for name, (stored, _) in self._numbers.items()
        ]
        if len(self.choice_sizes):
            dtype = "uint8" if self.choice_sizes.max() <= BYTE_INDICES else "int16"
            fields.append(("vectors_choice", (states, len(self.choice_sizes)), dtype))
        return fields

    def write(self, fields: Mapping[str, NDArray[Any]], place: tuple[Any, ...], vectors: NDArray[np.float32]) -> None:
        """Write `vectors [..., D]` to a place of the fields, as `fields[name][place]` `[..., size]`."""
        for name, (_, numbers) in self._numbers.items():
            fields[name][place] = vectors[..., numbers]
        if len(self.choice_sizes):
            ones = vectors[..., self._choice_places].nonzero()[-1]  # in order, one for each choice
            indices = ones.reshape(*vectors.shape[:-1], len(self.choice_sizes)) - self._choice_starts
            fields["vectors_choice"][place] = indices

    def read(self, fields: Mapping[str, torch.Tensor], states: slice | Sequence[int] = slice(None)) -> torch.Tensor:
        """The vectors of some states: fields `[B, states, size]` → `[B, states, D]` float32; perhaps a view."""
        found = [fields[name][:, states].float() for name in self._numbers]
        if len(self.choice_sizes):
            indices = fields["vectors_choice"][:, states]
            choice_of, index_of = (on_device(places, indices.device) for places in (self._choice_of, self._index_of))
            found.append((indices[..., choice_of] == index_of).float())
        vectors = found[0] if len(found) == 1 else torch.cat(found, -1)
        return vectors if self._order is None else vectors[..., on_device(self._order, vectors.device)]


def _places(parts: Sequence[VectorPart], wanted: Stored) -> NDArray[np.int64]:
    """The places in the vector of all numbers that are stored like this."""
    stored = np.repeat([part.stored == wanted for part in parts], [part.size for part in parts])
    return np.flatnonzero(stored)


def _selection(places: NDArray[np.int64]) -> Selection:
    """A slice if the places are neighbours: numpy copies it faster."""
    if not len(places) or places[-1] - places[0] >= len(places):
        return places
    return slice(int(places[0]), int(places[-1]) + 1)
