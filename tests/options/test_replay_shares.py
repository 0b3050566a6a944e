"""The shares of the replays in a batch."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from option_flags import ReplayOptions
from options.replay_options import divisible_batch, split_by_ratio
from options.rules import UsageError
from tests.options.replay_entries import queue, replays, standard
from tests.options.words import sentence_of


def test_ratios_add_up_to_one_within_a_millionth() -> None:
    close = replays(queue(0.333333), standard(0.333333), standard(0.3333335))
    assert ReplayOptions(replay_parameters=close, batch_size=9).shares == (3, 3, 3)
    assert sentence_of("--replay_parameters", replays(queue(0.5), standard(0.499))) == (
        "--replay_parameters: the values of sample_ratio must add up to 1, not 0.999."
    )


def test_every_replay_needs_a_share() -> None:
    entries = replays(queue(0.99), standard(0.01))
    assert sentence_of("--replay_parameters", entries) == (
        "--batch_size=4 is too small for --replay_parameters: entry 2 would get no unroll of a batch; "
        "100 or more would be right."
    )
    assert ReplayOptions(replay_parameters=entries, batch_size=100).shares == (99, 1)


def test_the_capacity_of_a_queue_may_be_below_its_share() -> None:
    assert ReplayOptions(replay_parameters=replays(queue(0.5, 1), standard(0.5, 2))).shares == (2, 2)
    assert sentence_of("--replay_parameters", replays(queue(0.5, 1), standard(0.5, 1))) == (
        "--replay_parameters: entry 2 has a capacity of 1, but its share of a batch is 2; at least 2 would be right."
    )


def test_all_queues_have_the_same_share() -> None:
    assert ReplayOptions(replay_parameters=replays(queue(0.5), queue(0.5))).queue_shares == (2, 2)
    assert sentence_of("--replay_parameters", replays(queue(0.75), queue(0.25))) == (
        "--replay_parameters: every unroll passes once through every queue, so all queues need the same share "
        "of a batch, not 3 and 1 unrolls."
    )


@pytest.mark.parametrize(
    ("total", "ratios", "shares"),
    [
        (8, [1.0], (8,)),
        (3, [0.5, 0.5], (2, 1)),  # a tie: the earlier one
        (10, [0.35, 0.65], (4, 6)),  # a tie that binary fractions would decide by their rounding errors
        (10, [0.65, 0.35], (7, 3)),
        (100, [0.29, 0.71], (29, 71)),
        (7, [0.1, 0.6, 0.3], (1, 4, 2)),
        (1, [0.2, 0.2, 0.6], (0, 0, 1)),
    ],
)
def test_examples_of_largest_remainder(total: int, ratios: list[float], shares: tuple[int, ...]) -> None:
    assert split_by_ratio(total, ratios) == shares


WEIGHTS = st.lists(st.integers(1, 1000), min_size=1, max_size=8)


@given(total=st.integers(0, 5000), weights=WEIGHTS)
def test_shares_add_up_and_stay_within_one_of_their_quota(total: int, weights: list[int]) -> None:
    shares = split_by_ratio(total, [float(weight) for weight in weights])
    quotas = [Fraction(total * weight, sum(weights)) for weight in weights]
    assert sum(shares) == total
    assert all(math.floor(quota) <= share <= math.ceil(quota) for share, quota in zip(shares, quotas, strict=True))


@given(total=st.integers(0, 200), weights=WEIGHTS)
def test_shares_equal_those_of_handing_out_one_at_a_time(total: int, weights: list[int]) -> None:
    quotas = [Fraction(total * weight, sum(weights)) for weight in weights]
    slow = [int(quota) for quota in quotas]
    while sum(slow) < total:
        short = [quota - share for quota, share in zip(quotas, slow, strict=True)]
        slow[short.index(max(short))] += 1
    assert split_by_ratio(total, [float(weight) for weight in weights]) == tuple(slow)


@given(cents=st.lists(st.integers(1, 99), min_size=1, max_size=5), batch_size=st.integers(1, 300))
@settings(max_examples=50)
def test_the_batch_size_in_an_error_is_enough(cents: list[int], batch_size: int) -> None:
    entries = replays(*(standard(cent / sum(cents), capacity=1000) for cent in cents))
    try:
        options = ReplayOptions(replay_parameters=entries, batch_size=batch_size)
    except UsageError as error:
        words = str(error).split()
        enough = int(words[words.index("or") - 1])
        assert enough > batch_size
        options = ReplayOptions(replay_parameters=entries, batch_size=enough)
    assert min(options.shares) >= 1
    assert sum(options.shares) == options.batch_size


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 40), st.lists(st.integers(1, 9), min_size=1, max_size=3), st.integers(2, 5))
def test_the_next_batch_that_learners_can_divide(batch_size: int, weights: list[int], learners: int) -> None:
    ratios = [weight / sum(weights) for weight in weights]
    found = divisible_batch(batch_size, ratios, learners)
    divisible = [
        n
        for n in range(batch_size + 1, found + 1)
        if all(share and not share % learners for share in split_by_ratio(n, ratios))
    ]
    assert divisible == [found]
