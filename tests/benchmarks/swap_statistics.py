"""Write a checkpoint with the vector statistics of another one, to see by tests what the statistics alone change.

python -m tests.benchmarks.swap_statistics CHECKPOINT OTHER_CHECKPOINT results/swapped.pt
python main.py --op_mode=test --load_model_url=results/swapped.pt --test_episode_count=16
"""

import argparse
from pathlib import Path

from run_files.checkpoint import read_checkpoint, write_checkpoint

STATISTICS = ("vector_mean", "vector_deviation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("other", type=Path, help="where the statistics come from")
    parser.add_argument("output", type=Path)
    given = parser.parse_args()
    content, other = (read_checkpoint(path).content for path in (given.checkpoint, given.other))
    for name in STATISTICS:
        content["learner"]["network"][name] = other["learner"]["network"][name]
    write_checkpoint(given.output, content)


if __name__ == "__main__":
    main()
