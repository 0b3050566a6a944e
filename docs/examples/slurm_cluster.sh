#!/bin/bash
# One run of Pong on a Ray cluster of four nodes. Type it in the checkout, after the token of docs/cluster.md:
#
#     sbatch docs/examples/slurm_cluster.sh
#
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32

source .venv/bin/activate
export RAY_AUTH_MODE=token RAY_health_check_failure_threshold=30
export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK # otherwise a step gets one CPU
cpus=--num-cpus=$SLURM_CPUS_PER_TASK others=$((SLURM_JOB_NUM_NODES - 1))
head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --overlap --nodes=1 --ntasks=1 -w "$head" ray start --head --port=6379 "$cpus" --block &
sleep 15
srun --overlap --nodes="$others" --ntasks="$others" --exclude="$head" ray start --address="$head:6379" "$cpus" --block &
srun --overlap --nodes=1 --ntasks=1 -w "$head" python main.py --op_mode=train --cluster="$head:6379"
