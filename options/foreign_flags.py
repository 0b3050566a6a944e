"""Flags of the earlier platform and of others that are no flags here: what there is instead.

A flag that another platform only calls differently is an alias of ours, and stands with our option.
"""

ENVIRONMENTS = "--envs_per_worker is the number of environments of each worker, and --worker_count that of the workers"
REPLACED_FLAGS = {
    "multiprocessing_backend": "workers are always spawned processes",
    "learner_thread_count": "there is one learner; --learner_threads sets its CPU threads",
    "undefok": "unknown flags are always refused",
    # Flags of other platforms that mean something else than a flag of ours:
    "gpu": "--device=cuda, or cuda:1 for the second GPU, chooses it; without it a GPU is used if there is one",
    "cuda": "--device=cuda or --device=cpu chooses where the learner computes",
    "n_envs": ENVIRONMENTS,
    "num_envs": ENVIRONMENTS,
    "algo": "--loss chooses between V-trace and IMPACT",
    # Flags of the earlier platform:
    "load_optimizer_save": "a resumed run continues with the saved optimizer; with --load_weights_only it is new",
    "clip_rewards": "--reward_clipping_method sets how rewards are clipped, and none leaves them as they are",
    "debug": "errors of worker processes are always shown with their traceback",
    "actions_count": "the number of actions comes from the environment",
    "observation_shape": "it follows from --frame_scale_resolution, --frames_stacked and --grayscaling_frames",
    "shared_queue_size": "--slots_per_worker sets how far workers may be ahead of the learner",
    "replay_writer_queue_size": "unrolls go from shared memory to the replays without a queue between them",
    "discarding_strategy": 'a full replay replaces its oldest unroll; see "insert_strategy" in docs/replays.md',
    "caching_threads": "--caching mixes batches in one background thread",
    "cache_sample_size": "--cache_output_buffer_size sets how many batches are mixed ahead",
    "verbose_worker_out_int": "--console and --console_period set what is printed, and how often",
    "verbose_learner_out_int": "--console and --console_period set what is printed, and how often",
    "basic_verbose": "--console sets what is printed",
    "worker_verbose": "--console sets what is printed",
    "background_save": "a checkpoint is written between two updates; it takes a fraction of a second",
    "use_additional_scaling_FC_layer": "--feature_out_layer_size sets the size of the features that replays compare",
}
