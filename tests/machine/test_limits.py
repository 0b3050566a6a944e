import errno
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from machine.limits import LEAST_MEMORY, allow_open_files, check_memory_limits, limit_reached
from options.rules import UsageError

ROOT = Path(__file__).resolve().parents[2]
MAPPED = "libtorch_cpu.so: failed to map segment from shared object"
SMALL_RUN = ["main.py", "--environment_max_steps=600", "--envs_per_worker=2", "--worker_count=2", "--console=off"]
SMALL_RUN += ["--device=cpu"]  # CUDA needs more files than some of these limits


def set_limit(monkeypatch: pytest.MonkeyPatch, number: int, nbytes: int) -> None:
    """Simulated: a limit of this process would hold for all tests after it."""

    def limit(asked: int) -> tuple[int, int]:
        return (nbytes, nbytes) if asked == number else (resource.RLIM_INFINITY, resource.RLIM_INFINITY)

    monkeypatch.setattr("resource.getrlimit", limit)


@pytest.mark.parametrize(
    ("error", "number", "nbytes", "wanted"),
    [
        (MemoryError(), resource.RLIMIT_AS, 2 << 30, "needs memory, which ulimit -v of 2,097,152 KiB does not"),
        (MemoryError(), resource.RLIMIT_DATA, 1 << 30, "needs memory, which ulimit -d of 1,048,576 KiB does not"),
        (ImportError(MAPPED), resource.RLIMIT_AS, 1 << 20, "ulimit -v of 1,024 KiB"),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), resource.RLIMIT_AS, 1 << 20, "ulimit -v of 1,024 KiB"),
        (OSError(errno.EMFILE, "Too many open files"), resource.RLIMIT_NOFILE, 20, "ulimit -n of 20 files"),
        (OSError(errno.EFBIG, "File too large"), resource.RLIMIT_FSIZE, 4096, "ulimit -f of 4 KiB"),
        (FileNotFoundError("No usable temporary directory"), resource.RLIMIT_FSIZE, 0, "ulimit -f of 0 KiB"),
        (RuntimeError("can't start new thread"), resource.RLIMIT_NPROC, 7, "ulimit -u of 7 processes and threads"),
        (
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
            *(resource.RLIMIT_AS, 1 << 20, "ulimit -v of 1,024 KiB"),
        ),
        (MemoryError(), resource.RLIMIT_NOFILE, 5, "needs memory, and the system has no more; a machine with more"),
    ],
)
def test_the_limit_behind_an_error_is_named(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, number: int, nbytes: int, wanted: str
) -> None:
    set_limit(monkeypatch, number, nbytes)
    sentence = limit_reached(error)
    assert sentence is not None and wanted in sentence and sentence.endswith(" would be right.")
    later = ValueError("another one")
    later.__cause__ = error
    assert limit_reached(later) == sentence, "also where the error led to another one"


@pytest.mark.parametrize("error", [ValueError("no"), OSError(errno.ENOENT, "No such file"), ImportError("no module x")])
def test_other_errors_keep_their_traceback(error: BaseException) -> None:
    assert limit_reached(error) is None


def test_too_little_memory_is_refused_before_the_libraries_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    least = LEAST_MEMORY // 1024
    set_limit(monkeypatch, resource.RLIMIT_AS, LEAST_MEMORY)
    check_memory_limits()
    set_limit(monkeypatch, resource.RLIMIT_AS, LEAST_MEMORY - 1024)
    with pytest.raises(
        UsageError, match=rf"^ulimit -v of {least - 1:,} KiB is too low .* at least {least:,}, would be right\.$"
    ):
        check_memory_limits()


def limited(limit: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", sys.executable, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "code"), [("-v 300000", 2), ("-f 2000", 1), ("-n 12", 1)])
def test_a_run_that_reaches_a_limit_ends_with_one_sentence(tmp_path: Path, limit: str, code: int) -> None:
    ended = limited(limit, *SMALL_RUN, f"--results_dir={tmp_path}")
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count("\n") == 1 and f"ulimit {limit[:2]} of" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("module", ["evaluation.export", "reports.plot"])
def test_a_command_that_cannot_load_its_libraries_says_which_limit(module: str) -> None:
    ended = limited("-v 120000", "-m", module, "results/none")
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.count("\n") == 1 and "ulimit -v of 120,000 KiB" in ended.stderr


@pytest.mark.parametrize(
    ("soft", "hard", "asked", "expected"),
    [
        (1024, 4096, 2000, [2000]),
        (1024, 4096, 9000, [4096]),
        (256, resource.RLIM_INFINITY, 9000, [9000]),  # as on macOS
        (1024, 4096, 1024, []),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 9000, []),
    ],
)
def test_more_open_files_are_allowed_where_that_is_possible(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, asked: int, expected: list[int]
) -> None:
    allowed: list[tuple[int, int]] = []
    monkeypatch.setattr("resource.getrlimit", lambda number: (soft, hard))
    monkeypatch.setattr("resource.setrlimit", lambda number, limits: allowed.append(limits))
    allow_open_files(asked)
    assert allowed == [(each, hard) for each in expected]
