"""The machine that a run uses: device, cores, memory, GPU utilization, signals and settings of the system."""
