"""The streams and exit codes of programs, and the commands that they print."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from machine.program import command_of

ROOT = Path(__file__).resolve().parents[2]


def test_a_stream_without_a_character_gets_a_question_mark() -> None:
    program = "from machine.program import run_command; run_command(lambda words: print('84 × 84'), '')"
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=False, capture_output=True)
    assert (ran.stdout, ran.stderr) == (b"84 ? 84\n", b"")


def test_closed_streams_do_not_end_the_program() -> None:
    program = "from machine.program import run_program; run_program(lambda words: print('done') or 7)"
    command = ["sh", "-c", 'exec "$0" -c "$1" 0<&- 1>&- 2>&-', sys.executable, program]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=100).returncode == 7


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


def test_a_command_is_known_after_the_current_folder_was_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert command_of("main.py") == [sys.executable, str(ROOT / "main.py")]


def ended(body: str) -> tuple[int, str]:
    """The exit code and the errors of a program with this `main`, whose output is closed when it begins to write."""
    program = (
        f"import sys\nfrom machine.program import run_command\ndef main(words):\n    sys.stdin.read()\n    {body}\n"
        "run_command(main, '')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None and process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        return process.wait(timeout=60), process.stderr.read()


@pytest.mark.parametrize("body", ["print('a line')", "print('a line\\n' * 100_000)"])
def test_output_that_nobody_reads_ends_a_program_quietly(body: str) -> None:
    assert ended(body) == (141, "")


def test_a_sentence_about_a_mistake_does_not_need_a_reader_of_the_output() -> None:
    mistake = "from options.rules import UsageError; print('a line'); raise UsageError('a mistake')"
    assert ended(mistake) == (141, "a mistake\n")


def run_errors(body: str) -> tuple[int, str]:
    program = f"from machine.program import run_command\ndef main(words): {body}\nrun_command(main, '')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_a_file_that_this_user_may_not_read_is_a_sentence() -> None:
    error = "raise PermissionError(13, 'Permission denied', '/somewhere/config.json')"
    assert run_errors(error) == (2, "/somewhere/config.json may not be read or written by this user.\n")


def test_another_broken_connection_is_an_error() -> None:
    code, errors = run_errors("raise BrokenPipeError('of a worker')")
    assert code == 1 and errors.endswith("BrokenPipeError: of a worker\n")
