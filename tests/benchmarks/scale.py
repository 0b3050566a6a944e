"""Measure how many unrolls the learner can take from 1 to 64 workers, and model more cores and a GPU.

    python -m tests.benchmarks.scale [--workers 1 2 4 … 64] [--seconds=1.5] [--learner_steps_per_second=N]
        [--json=FILE] [any flag of main.py]

The workers do not play: they write recorded unrolls to the real slots as fast as they can. Only the learner's side is
measured. Then a small model, fitted to the stages as measured on this machine, predicts the speed with 1 to 64 such
cores. With --learner_steps_per_second (steps of batches, fresh and replayed, that Learner.update learns from in a
second) it also predicts the speed with a GPU. docs/performance.md#more-cores has the model.
"""

import sys

if __name__ == "__main__":  # workers import this file too, and do not need what follows
    from tests.benchmarks.scaling import main

    sys.exit(main(__doc__))
