"""The streams of programs, and the commands that they print."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine.program import command_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "program",
    [
        "from machine.program import run_program; run_program(lambda words: print('84 × 84') or 0)",
        "from machine.run_command import run_command; run_command(lambda words: print('84 × 84'), '')",
    ],
)
def test_a_stream_without_a_character_gets_a_question_mark(program: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
        capture_output=True,
        timeout=100,
    )
    assert (ran.stdout, ran.stderr) == (b"84 ? 84\n", b"")


def test_a_closed_stdin_is_not_replaced_by_a_pipe() -> None:
    program = "from machine.program import prepare_streams; prepare_streams(); import os; print(min(os.pipe()) > 2)"
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", program]
    assert subprocess.check_output(command, cwd=ROOT, timeout=100) == b"True\n"


@pytest.mark.parametrize(("activated", "word"), [(True, "python"), (False, ".venv/bin/python")])
def test_a_printed_command_names_the_python_that_runs_it(
    activated: bool, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    (commands / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(commands / "python"))
    if activated:
        monkeypatch.setenv("PATH", str(commands), prepend=os.pathsep)
    monkeypatch.chdir(tmp_path)
    assert command_of("main.py") == [word, str(ROOT / "main.py")]
    monkeypatch.chdir(ROOT)
    assert command_of("main.py") == [word if activated else str(commands / "python"), "main.py"]
