"""The machine: device, cores, memory, GPU utilization, signals, system settings."""
