#!/bin/bash
# Trains Pong with the seeds 1 to 8, each on a part of a node, in spite of preemptions and time limits:
#
#     sbatch docs/examples/slurm.sh
#
# SIGTERM makes a run save a checkpoint and end. Slurm sends it before a preemption and, because of --signal, two
# minutes before the time limit. Then the job is queued again, and goes on from its newest checkpoint. So does the same
# command where a job was killed or cancelled. Type it in the checkout.
#SBATCH --job-name=pong
#SBATCH --array=1-8
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=16
#SBATCH --mem=16G
#SBATCH --time=04:00:00
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=slurm_%x_%a.txt

source .venv/bin/activate
job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID # SLURM_JOB_ID would be that of the whole array in one of its jobs
results=results/$SLURM_JOB_NAME/seed_$SLURM_ARRAY_TASK_ID
flags=(--env=PongNoFrameskip-v4 --seed="$SLURM_ARRAY_TASK_ID" --results_dir="$results" --console=plain)

# Each part of a training has a folder of its own: the one with the newest checkpoint goes on.
newest=$(ls -t "$results"/*/checkpoints/checkpoint_*.pt 2>/dev/null | head -n 1)
mode=(--op_mode=train)
if [ -n "$newest" ]; then
    run=${newest%/checkpoints/*}
    if grep -q '"status": "finished"' "$run/summary.json"; then
        exit 0
    fi
    mode=(--op_mode=train_w_load --load_model_url="$run")
fi

trap : TERM # Slurm may send it to this script, too, which has to wait for the run
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" python main.py "${mode[@]}" "${flags[@]}"
code=$?

# What a signal has stopped goes on later: a run that has saved, or one that was only starting (143). Not after scancel,
# when the job is no longer RUNNING.
newest=$(ls -t "$results"/*/summary.json 2>/dev/null | head -n 1)
if [ "$code" = 143 ] || grep -q '"status": "stopped"' "${newest:-/dev/null}"; then
    if [ "$(squeue -h -j "$job" -o %T)" = RUNNING ]; then
        scontrol requeue "$job"
    fi
fi
exit "$code"
