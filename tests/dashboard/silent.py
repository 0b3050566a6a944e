"""Work of a child process that never answers. It loads nothing."""

import time
from multiprocessing.connection import Connection


def wait(connection: Connection) -> None:
    time.sleep(1000)
