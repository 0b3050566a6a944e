"""Ends a run whose loss or weights are not finite: nothing can be learned from then on."""

from agents.learner import Learner
from option_flags import OPTIONS, Config
from options.learning_options import LOSS_TERMS
from processes.failures import RunFailedError
from training.counters.interval import Interval

# Options that make it likelier with a value above their default, and those with a value below it.
RISKY_ABOVE = ("lr", "lr_end_value", "rmsprop_momentum", "rho_const", "c_const", *LOSS_TERMS.values())
RISKY_BELOW = ("lr_warmup_updates", "rmsprop_eps", "adam_eps")
RISKY_VALUES = {"reward_clipping_method": "none", "loss_reduction": "sum", "gradient_clip_by_norm_threshold": 0}


def end_if_diverged(config: Config, learner: Learner, interval: Interval, has_checkpoint: bool) -> None:
    """Raise a RunFailedError if a loss since the latest report, or a weight, is not finite. Waits for the GPU."""
    update = interval.first_diverged_update()
    if update is None and learner.is_finite():
        return
    if update is None:
        what = f"the network's weights are not finite any more (NaN or infinity) at update {learner.updates:,}"
    else:
        what = f"the loss is not finite any more (NaN or infinity) from update {update:,} on"
    causes = risky_flags(config)
    advice = f"{' and '.join(causes)} can cause this" if causes else "a smaller --lr would be right"
    kept = "the earlier checkpoints are complete" if has_checkpoint else "nothing was saved before"
    raise RunFailedError(f"{what}, and the weights are not saved; {advice}; {kept}.")


def risky_flags(config: Config) -> list[str]:
    """The flags of this run that make divergence likelier than their defaults do."""
    values = config.flags()
    defaults = {name: item.default for name, item in OPTIONS.items()}
    risky = [name for name in RISKY_ABOVE if values[name] > defaults[name]]
    risky += [name for name in RISKY_BELOW if values[name] < defaults[name]]
    risky += [name for name, value in RISKY_VALUES.items() if values[name] == value]
    return [f"--{name}={values[name]}" for name in risky]
