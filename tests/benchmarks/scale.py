"""What the learner can take in from 1 to 64 workers, and what more cores and a GPU would give.

    python -m tests.benchmarks.scale [--workers 1 2 4 … 64] [--seconds=1.5] [--learner_steps_per_second=N]
        [--json=FILE] [any flag of main.py]

The workers play nothing: they write recorded unrolls into the real slots as fast as they can, so that what is measured
is the learner's side alone. Then a small model, fitted to the stages as measured on this machine, says what a machine
of 1 to 64 such cores would give, and with --learner_steps_per_second (steps of batches, fresh and replayed, that
Learner.update takes in a second) what it would beside a GPU. docs/lab/performance.md says more.
"""

import sys

if __name__ == "__main__":  # and not in the workers, which import this file, too, and need nothing of it
    from tests.benchmarks.scaling import main

    sys.exit(main(__doc__))
