"""Streams with different purposes or numbers are different."""

from itertools import product

from workers.randomness import stream_of


def test_all_streams_are_different() -> None:
    small = range(3)
    sequences = [stream_of("environment", *numbers) for numbers in product(small, repeat=4)]
    sequences += [stream_of("replays", *numbers) for numbers in product(small, repeat=2)]
    sequences += [stream_of("game", *numbers) for numbers in product(small, repeat=2)]
    sequences += [stream_of("game", *numbers) for numbers in product(small, repeat=3)]  # in an evaluation
    children = [child for sequence in sequences for child in sequence.spawn(3)]
    assert len({tuple(child.generate_state(4)) for child in children}) == len(children)
