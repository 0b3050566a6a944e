"""The streams of programs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
