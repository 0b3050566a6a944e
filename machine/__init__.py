"""What the computer is and does: device, cores, memory, GPU gauge, signals."""
