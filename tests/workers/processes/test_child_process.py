"""What child processes inherit from a run, and pass on."""

import signal
import subprocess
from dataclasses import dataclass
from multiprocessing.connection import Connection

import pytest

from workers.messages import Kind, receive, send
from workers.processes.child_process import PARENT_SIGNALS, end_process, start_process, unblock_sigterm

SECONDS = 60.0


@dataclass(frozen=True)
class WithProgram:
    """A child whose environment starts a program, and ends it by SIGTERM."""

    unblocks: bool

    def run(self, connection: Connection) -> None:
        if self.unblocks:
            unblock_sigterm()
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        for number in PARENT_SIGNALS:
            signal.raise_signal(number)  # of the terminal, for all processes of the run
        with subprocess.Popen(["sleep", "60"]) as program:
            program.terminate()
            try:
                code = program.wait(1.0)
            except subprocess.TimeoutExpired:
                program.kill()
                code = program.wait()
        send(connection, Kind.RESULT, payload=(code, sorted(blocked)))


@pytest.mark.slow
@pytest.mark.parametrize("unblocks", [False, True])
def test_sigterm_ends_a_program_of_an_environment(unblocks: bool) -> None:
    process, connection = start_process(WithProgram(unblocks), "player")
    try:
        assert connection.poll(SECONDS)
        code, blocked = receive(connection).payload
    finally:
        end_process(process, connection)
    assert code == (-signal.SIGTERM if unblocks else -signal.SIGKILL)
    assert set(PARENT_SIGNALS) - set(blocked) == ({signal.SIGTERM} if unblocks else set())
