"""The machine: device, cores, memory, GPU utilization, signals; how a program starts and ends."""
