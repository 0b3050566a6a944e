"""Messages between two ends of a pipe."""

import multiprocessing
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from processes.messages import ChildError, Kind, Message, receive, send, send_error


@pytest.fixture
def pipe() -> Iterator[tuple[Connection, Connection]]:
    ends = multiprocessing.Pipe()
    yield ends
    for end in ends:
        end.close()


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.ERROR])
def test_kind_index_and_payload_arrive(pipe: tuple[Connection, Connection], kind: Kind) -> None:
    sender, receiver = pipe
    send(sender, kind, 2**32 - 1)
    send(sender, kind, payload={"a": [1, 2.5]})
    assert receive(receiver) == Message(kind, 2**32 - 1, None)
    assert receive(receiver) == Message(kind, 0, {"a": [1, 2.5]})


@pytest.mark.parametrize("text", ["", "ValueError: reason\n", "ä" * 100_000])
def test_an_error_is_raised_with_the_end_of_its_traceback(pipe: tuple[Connection, Connection], text: str) -> None:
    sender, receiver = pipe
    send_error(sender, text + "last line")
    with pytest.raises(ChildError) as raised:
        receive(receiver)
    assert str(raised.value).endswith((text + "last line")[-5000:])


def test_the_longest_traceback_is_sent_without_a_receiver(pipe: tuple[Connection, Connection]) -> None:
    """It is written in one piece, so a sender that is killed leaves no half message."""
    sender, receiver = pipe
    send_error(sender, "x" * 1_000_000)
    assert receiver.poll()
    receiver_size = len(receiver.recv_bytes())
    assert receiver_size < 16_384


def test_a_receiver_notices_that_the_sender_is_gone(pipe: tuple[Connection, Connection]) -> None:
    sender, receiver = pipe
    send(sender, Kind.GAME, 3)
    sender.close()
    assert receive(receiver).index == 3
    with pytest.raises(EOFError):
        receive(receiver)
