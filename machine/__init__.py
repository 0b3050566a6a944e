"""Device, cores, memory, signals, system settings."""
