"""`python -m dashboard`: its options, and what it says about mistakes."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.__main__ import main
from options.rules import UsageError
from tests.ports import free_ports

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port=0"], "--port must be a whole number between 1 and 65535, not 0."),
        (
            ["--results_dir=/no"],
            "--results_dir=/no is not a folder; a folder with runs, such as results, would be right.",
        ),
        (["runs"], '"runs" belongs to no option; --results_dir=runs would be right for a folder.'),
        (["--token=short"], '--token must be at least 8 letters, digits, dashes or underscores, not "short".'),
        (["--token=eight ok"], '--token must be at least 8 letters, digits, dashes or underscores, not "eight ok".'),
        (
            ["--host=192.0.2.1"],
            "--port=8050 of --host=192.0.2.1 cannot be opened (Cannot assign requested address); choose a free port, "
            "and an address of this machine: 127.0.0.1, or 0.0.0.0 for all.",
        ),
        (["--host=a b"], '--host must be an address such as 127.0.0.1, not "a b".'),
    ],
)
def test_mistakes_are_said_in_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        main([f"--results_dir={tmp_path}", *words] if "--results_dir" not in words[0] else words)
    assert str(refused.value) == sentence


def test_a_port_in_use_is_said(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=f"--port={port} of .* cannot be opened .*already in use"):
            main([f"--results_dir={tmp_path}", f"--port={port}"])


@pytest.mark.slow
def test_the_command_shows_its_help_and_ends_with_2_for_a_mistake() -> None:
    def run(*words: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "dashboard", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)

    shown = run("--help")
    assert shown.returncode == 0 and "--results_dir" in shown.stdout
    wrong = run("--results=x")
    assert wrong.returncode == 2 and len(wrong.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_missing_nicegui_is_said(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    code = "import sys; sys.modules['nicegui'] = None; from dashboard.__main__ import main; main(sys.argv[1:])"
    ended = subprocess.run(
        [sys.executable, "-c", code, f"--results_dir={tmp_path}", f"--port={port}"],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert "pip install -r dashboard/requirements.txt would be right." in ended.stderr


@pytest.mark.slow
def test_ctrl_c_ends_the_server_without_a_traceback(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "dashboard", f"--results_dir={tmp_path}", f"--port={port}"]
    # NiceGUI wants its own test classes where it sees this variable.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None and f":{port}/" in server.stdout.readline()
            server.send_signal(signal.SIGINT)
            _, said = server.communicate(timeout=200)
        finally:
            server.kill()
    assert (server.returncode, said) == (0, "")
