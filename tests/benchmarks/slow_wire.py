"""A wire between two network namespaces, with a delay and a bandwidth; for kernels without tc netem, which many lack.

`python -m tests.benchmarks.slow_wire <namespace> <namespace> <delay in ms> <Mbit/s, 0: not limited>` opens a TUN
device `wire0` in each namespace, and carries packets between them until it is killed.
"""

import ctypes
import fcntl
import os
import struct
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

DEVICE = "wire0"
LONGEST_PACKET = 65535
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_CLONE_NEWNET = 0x40000000


def open_device(namespace: str) -> int:
    """The file of a new TUN device in the namespace, where this process is from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/run/netns", namespace).open() as file:
        if libc.setns(file.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {namespace}")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), _IFF_TUN | _IFF_NO_PI))
    return device


def carry(source: int, target: int, delay: float, bytes_per_second: float) -> None:
    """Carry packets in one direction, each `delay` seconds late; a packet takes its time on the wire."""
    on_the_wire: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def deliver() -> None:
        while True:
            arrives, packet = on_the_wire.get()
            time.sleep(max(0.0, arrives - time.monotonic()))
            with suppress(OSError):  # as on a real wire, a packet to a device that is down is lost
                os.write(target, packet)

    threading.Thread(target=deliver, daemon=True).start()
    free_at = 0.0
    while True:
        packet = os.read(source, LONGEST_PACKET)
        free_at = max(free_at, time.monotonic())
        free_at += len(packet) / bytes_per_second if bytes_per_second else 0.0
        on_the_wire.put((free_at + delay, packet))


def main() -> None:
    first, second = open_device(sys.argv[1]), open_device(sys.argv[2])
    delay, rate = float(sys.argv[3]) / 1000, float(sys.argv[4]) * 1e6 / 8
    threading.Thread(target=carry, args=(second, first, delay, rate), daemon=True).start()
    print("open", flush=True)
    carry(first, second, delay, rate)


if __name__ == "__main__":
    main()
