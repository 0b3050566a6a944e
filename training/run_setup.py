"""What is settled before a run begins: the machine, the shape of an unroll, the folder."""

import shutil
import time
from pathlib import Path

from machine.machine_setup import Machine
from option_flags import Config
from options.rules import UsageError
from run_files.run_folder import CHECKPOINTS, create_run_folder, write_json
from training.resume import Resume

OLD = 40  # updates; what is known of learning is known of 3 to 15
KEEPS_THEM_FRESH = "a larger --batch_size or fewer --envs_per_worker would keep them fresh"


def make_run_folder(config: Config, machine: Machine, resume: Resume) -> Path:
    """A new folder, which says what the run is and where it comes from, with a place for checkpoints."""
    folder = None
    try:
        folder = create_run_folder(Path(config.run.results_dir), config.environment.env, time.time())
        described = {
            "options": config.flags(),
            "machine": machine.described(),
            "planned_updates": resume.planned_updates,
            "parent": resume.described(),
        }
        write_json(folder / "config.json", described)
        (folder / CHECKPOINTS).mkdir()
        resume.carry_over(folder / CHECKPOINTS)
        return folder
    except OSError as error:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(
            f"--results_dir={config.run.results_dir} cannot be written ({error.strerror}); "
            "a folder of your own would be right."
        ) from None
