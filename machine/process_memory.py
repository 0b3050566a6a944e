"""The memory that worker and player processes need."""

from options.rules import UsageError

PART_OF_FREE = 0.9  # the rest is for networks, activations and other programs
PROCESS_BYTES, GAME_BYTES = 170 << 20, 2 << 20  # a worker or a player with torch, and each of its games


def check_processes(count: int, games_each: int, free: int) -> int:
    """The bytes that `count` workers or players need; UsageError if so many bytes of `free` memory are too little.

    Players have few games each, so only --envs_per_worker can be what makes a single process too large.
    """
    each = PROCESS_BYTES + games_each * GAME_BYTES
    room = int(PART_OF_FREE * free)
    if count * each > room:
        fitting_games = (room // count - PROCESS_BYTES) // GAME_BYTES
        if each > room and fitting_games > 0:
            raise UsageError(
                f"--envs_per_worker={games_each} needs {format_bytes(each)} for each worker, more than the "
                f"{format_bytes(room)} of memory that is free; --envs_per_worker={fitting_games} or fewer would be "
                "right."
            )
        remedy = f"--worker_count={room // each} or fewer" if room >= each else "a machine with more memory"
        raise UsageError(
            f"--worker_count={count} needs {count} × {format_bytes(each)}, more than the {format_bytes(room)} of "
            f"memory that is free; {remedy} would be right."
        )
    return count * each


def format_bytes(nbytes: int) -> str:
    return f"{nbytes / 2**30:,.1f} GiB" if nbytes >= 0.1 * 2**30 else f"{nbytes / 2**20:,.1f} MiB"
