"""The streams and exit codes of programs, and the commands that they print."""

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
        "from machine.program import run_command; run_command(lambda words: print('84 × 84'), '')",
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


def ended(body: str, *, close_errors: bool = False) -> tuple[int, str]:
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
        stderr=subprocess.STDOUT if close_errors else subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        process.stdout.close()
        process.stdin.close()
        errors = process.stderr.read() if process.stderr is not None else ""
        return process.wait(timeout=60), errors


@pytest.mark.slow
@pytest.mark.parametrize("body", ["print('a line')", "print('a line\\n' * 100_000)", "print('a', flush=True)"])
@pytest.mark.parametrize("close_errors", [False, True])
def test_output_that_nobody_reads_ends_a_program_quietly(body: str, close_errors: bool) -> None:
    assert ended(body, close_errors=close_errors) == (141, "")


@pytest.mark.slow
def test_a_sentence_about_a_mistake_does_not_need_a_reader_either() -> None:
    mistake = "from options.rules import UsageError; print('a line'); raise UsageError('a mistake')"
    assert ended(mistake) == (141, "a mistake\n")
    assert ended(mistake, close_errors=True) == (141, "")


def test_another_broken_connection_is_an_error() -> None:
    program = (
        "from machine.program import run_command\ndef main(words): raise BrokenPipeError('of a worker')\n"
        "run_command(main, '')"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.endswith("BrokenPipeError: of a worker\n")


def test_a_file_that_this_user_may_not_read_is_a_sentence() -> None:
    error = "raise PermissionError(13, 'Permission denied', '/somewhere/config.json')"
    program = f"from machine.program import run_command\ndef main(words): {error}\nrun_command(main, '')"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "/somewhere/config.json may not be read or written by this user.\n")
