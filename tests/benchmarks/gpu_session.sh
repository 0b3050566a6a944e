#!/usr/bin/env bash
# All measurements of one machine with an NVIDIA GPU, in two calls of at most ten minutes:
#
#     bash tests/benchmarks/gpu_session.sh speed results/gpu     # tests, updates, steps/s, Pong with three seeds
#     bash tests/benchmarks/gpu_session.sh atari5 results/gpu    # the five games of Atari-5 side by side, and their table
#
# The same call goes on with Atari-5 after an interruption. SCALE=0.001 tries the script with a thousandth of the time and
# of the steps; DEVICE=cpu where there is no GPU.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
part=${1:?speed or atari5} out=${2:?a folder for the results} scale=${SCALE:-1} device=${DEVICE:-auto} python=${PYTHON:-python}
mkdir -p "$out"

scaled() { "$python" -c "print(max(1, round($1 * $scale)))"; }

# Ends a run like CTRL+C after so many seconds: it saves, draws its curves and writes its summary.
train() { # seconds, then flags of main.py
    local seconds=$1
    shift
    timeout --signal=INT --kill-after=60 "$seconds" \
        "$python" main.py --op_mode=train --device="$device" --console=plain "$@" 2>&1 | tee -a "$out/log.txt"
}

# The last report of each run.
table() {
    "$python" - "$@" <<'END'
import sys
from pathlib import Path

from run_files.metrics import last_report

KEYS = "agent_steps", "seconds", "steps_per_second", "updates_per_second", "policy_lag_mean", "return_mean", "gpu_memory_mb"
print("run", *KEYS, sep="\t")
for folder in map(Path, sys.argv[1:]):
    metrics = folder / "metrics.jsonl"  # missing where the run was cut off before its first report
    report = (last_report(metrics) if metrics.exists() else None) or {}
    print(folder.name, *(report.get(key) for key in KEYS), sep="\t")
END
}

speed() {
    "$python" -m pytest -q tests/gpu 2>&1 | tee "$out/tests.txt"
    "$python" -m tests.benchmarks.gpu_updates --flagfile=docs/presets/plain_impala.flags 2>&1 | tee "$out/updates.txt"
    local cores workers environments seed
    cores=$(nproc)
    for workers in $((cores / 2)) $((cores * 3 / 4)) "$cores"; do
        ((workers > 0)) || continue
        train 30 --worker_count="$workers" --seed=51 --report_period="$(scaled 5000)" --run_name="workers_$workers" \
            --environment_max_steps="$(scaled 2000000)" --results_dir="$out/workers"
    done
    for environments in 8 16; do
        train 30 --settings=atari_gpu --envs_per_worker="$environments" --seed=51 --report_period="$(scaled 5000)" \
            --run_name="environments_$environments" --environment_max_steps="$(scaled 2000000)" --results_dir="$out/workers"
    done
    for seed in 61 62 63; do
        train 70 --seed="$seed" --stop_at_return=18 --run_name=pong \
            --environment_max_steps="$(scaled 3000000)" --results_dir="$out/pong"
    done
    table "$out"/workers/* "$out"/pong/* | tee "$out/speed.txt"
}

atari5() {
    local workers=$(($(nproc) / 5))
    timeout --signal=INT --kill-after=60 570 "$python" multi_train.py --sweep=docs/sweeps/atari5.json --jobs=5 \
        --settings=atari_gpu --device="$device" --worker_count="$((workers > 0 ? workers : 1))" --learner_threads=1 \
        --envs_per_worker=16 --environment_max_steps="$(scaled 2500000)" --sweep_dir="$out/atari5" 2>&1 | tee -a "$out/log.txt"
    "$python" -m reports.game_scores "$out/atari5" | tee "$out/atari5.txt"
}

case $part in
speed | atari5) "$part" ;;
*) echo "gpu_session.sh: $part is neither speed nor atari5" >&2; exit 2 ;;
esac
