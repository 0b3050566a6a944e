"""The options of what learns: the network, the losses and the optimizer."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from options.presets import PRESETS, VTRACE, is_noframeskip
from options.replay_options import A_QUEUE, A_REPLAY
from options.rules import (
    IMPORTED_NAME,
    Need,
    Options,
    Rule,
    UsageError,
    above,
    at_least,
    between,
    flag_given,
    one_of,
    option,
    switch,
    whole,
)

PICTURE_NETWORKS = (
    *("nature", "nature_norm", "nature_small", "impala_shallow", "impala_deep", "conv3", "small_conv", "tiny_conv"),
)
VECTOR_NETWORKS = ("mlp", "separate_mlp")
NETWORKS = ("auto", *PICTURE_NETWORKS, *VECTOR_NETWORKS)
IMPACT, RMSPROP = flag_given("loss", "impact"), flag_given("optimizer", "rmsprop")


def _uses_places(config: Any) -> bool:
    """Whether --impact_batches matters: batches are kept, or the period of the target network follows from it."""
    return config.batch_uses != ONCE or not config.loss.impact_target_period


@dataclass(frozen=True)
class BatchUses:
    """The plan of a circular buffer (IMPACT): `slots` places for batches, which updates use in turn.

    A batch is used `uses` times, `slots` updates apart, and is then replaced by a new one. In the first round only,
    batches are used less often, by different numbers: so the places are not replaced all at once, and new batches are
    needed at a steady rate. With the defaults, each batch is used once.
    """

    slots: int = 1
    uses: int = 1

    @property
    def first_uses(self) -> tuple[int, ...]:
        """How often the first batch in each place is used."""
        spacing = max(1, self.uses // self.slots)
        return tuple(1 + place * spacing % self.uses for place in range(self.slots))

    def updates_of(self, batches: int) -> int:
        """How many updates can be made with this many batches."""
        if batches < self.slots:
            return batches  # the first round: each update takes a new batch
        # The updates that replace a first batch; each place is replaced again every `uses` rounds.
        replacing = sorted(rounds * self.slots + place for place, rounds in enumerate(self.first_uses))
        rounds, place = divmod(batches - self.slots, self.slots)
        return replacing[place] + rounds * self.uses * self.slots

    def batches_for(self, updates: int) -> int:
        """How many batches this many updates need."""
        return next(batches for batches in count() if self.updates_of(batches) >= updates)


ONCE = BatchUses()


@dataclass(frozen=True, kw_only=True)
class NetworkOptions(Options):
    topic = "Network"

    network: str = option(
        "auto",
        Rule(
            *(str, f"be one of {', '.join(NETWORKS)}, or module:function, such as my_network:make_torso"),
            accepts=lambda v: v in NETWORKS or IMPORTED_NAME.accepts(v),
        ),
        "Network architecture. auto is mlp for observations without a picture, small_conv for pictures with fewer than "
        "10 pixels on a side, tiny_conv for those with fewer than 36, else nature. separate_mlp, too, is for "
        "observations without a picture; policy and value have layers of their own. module:function imports a network "
        "of your own.",
    )
    network_width: int = option(
        1,
        whole(1, 32),
        "Multiplies the channels and units of the program's own networks.",
        Need("a --network of the program", lambda c: ":" not in c.network.network),
    )
    use_lstm: bool = switch(False, "Add an LSTM between the convolutions and the policy and value heads.")
    lstm_size: int = option(256, whole(1, 8192), "Units of the LSTM.", flag_given("use_lstm"))
    popart: bool = switch(
        False,
        "PopArt: values and advantages are divided by the deviation of the returns, a moving average. For rewards that "
        "are not clipped.",
    )
    factored_actions: bool = switch(
        False,
        "NoFrameskip games: actions with one direction, or with FIRE, share weights of the policy head (Sharma et al. "
        "2017), so that what is learned of UP also counts for UPFIRE. Nothing changes in other environments.",
        Need("a NoFrameskip game", lambda c: is_noframeskip(c.environment.env)),
    )
    feature_out_layer_size: int = option(
        64,
        whole(1, 4096),
        "Size of the features (projected last layer) by which attentive and elite replays compare states.",
        Need("a replay that compares features", lambda c: c.replay.ranks_by_features),
    )


# The terms of the loss by their names in reports, and the options of their weights.
LOSS_TERMS = {
    "policy_loss": "policy_gradient_loss_weight",
    "value_loss": "value_loss_weight",
    "entropy_loss": "entropy_loss_weight",
    "proximal_loss": "proximal_loss_weight",
    "policy_cloning_loss": "policy_cloning_loss_weight",
    "value_cloning_loss": "value_cloning_loss_weight",
}


@dataclass(frozen=True, kw_only=True)
class LossOptions(Options):
    topic = "Losses"

    loss: str = option(
        VTRACE,
        one_of(*PRESETS["loss"]),
        "Objective of the policy: the policy gradient of V-trace, or the clipped surrogate of IMPACT around a target "
        "network, with batches that are used several times: see docs/tuning.md.",
    )
    gamma: float = option(0.99, between(0, 1), "Discount factor per agent step.")
    rho_const: float = option(1.0, above(0, 100_000), "V-trace: upper bound of the importance weight of each TD error.")
    c_const: float = option(1.0, above(0, 100_000), "V-trace: upper bound of the importance weights along the trace.")
    trace_lambda: float = option(0.95, between(0, 1), "V-trace: factor on every step of the trace.")
    policy_gradient_loss_weight: float = option(1.0, at_least(0), "Weight of the policy gradient loss.")
    value_loss_weight: float = option(0.25, at_least(0), "Weight of the value loss, which is half the squared error.")
    entropy_loss_weight: float = option(
        0.003,
        at_least(0),
        "Weight of the entropy bonus, on the fresh unrolls of a batch, or on all if none is fresh.",
        aliases=("entropy", "entropy_coef", "ent_coef"),
    )
    entropy_loss_end_weight: float | None = option(
        None,
        at_least(0),
        "Weight of the entropy bonus at the end of the learning rate's schedule, to which it changes linearly. Unset: "
        "it stays the same.",
    )
    proximal_loss_weight: float = option(
        0.05,
        at_least(0),
        "Weight of the KL divergence from the acting policy to the current policy, on fresh unrolls. With "
        "--loss=impact it is the divergence from the target policy, and the default is 0.",
        A_QUEUE,
    )
    loss_reduction: str = option("mean", one_of("mean", "sum"), "Mean or sum of the losses over a batch.")
    use_policy_cloning_loss: bool = switch(
        True, "CLEAR: on replayed unrolls, keep the policy close to the one that played.", A_REPLAY
    )
    policy_cloning_loss_weight: float = option(
        0.01, at_least(0), "Weight of the policy cloning loss.", A_REPLAY, flag_given("use_policy_cloning_loss")
    )
    use_value_cloning_loss: bool = switch(
        True, "CLEAR: on replayed unrolls, keep the values close to those of that time.", A_REPLAY
    )
    value_cloning_loss_weight: float = option(
        0.005, at_least(0), "Weight of the value cloning loss.", A_REPLAY, flag_given("use_value_cloning_loss")
    )
    use_kl_mask: bool = switch(
        False, "LASER: leave states whose acting policy is too far from the current one out of every term of the loss."
    )
    kl_div_threshold: float = option(
        0.3, above(0), "LASER: KL divergence at which a state is left out.", flag_given("use_kl_mask")
    )
    impact_epsilon: float = option(
        0.3,
        above(0, 1),
        "IMPACT: how far the ratio to the target policy may go from 1 before it is clipped (ε).",
        IMPACT,
    )
    impact_uses: int = option(
        2, whole(1, 1000), "IMPACT: how often each batch of fresh unrolls is used (K).", IMPACT, A_QUEUE
    )
    impact_batches: int = option(
        4,
        whole(1, 10_000),
        "IMPACT: batches of fresh unrolls in the circular buffer, which are used in turn (N).",
        IMPACT,
        Need("a second use of each fresh unroll", _uses_places),
    )
    impact_target_period: int = option(
        0,
        whole(0),
        "IMPACT: updates between two copies of the network to the target network. 0: impact_batches times impact_uses.",
        IMPACT,
    )

    @property
    def term_weights(self) -> dict[str, float]:
        """The weight of each term of the loss that is not off. Those of policy and value never are."""
        is_on = {term: getattr(self, f"use_{term}", True) for term in LOSS_TERMS}
        weights = {term: getattr(self, weight) for term, weight in LOSS_TERMS.items() if is_on[term]}
        return {term: weight for term, weight in weights.items() if weight or term in ("policy_loss", "value_loss")}

    @property
    def batch_uses(self) -> BatchUses:
        """How often each batch of fresh unrolls is used."""
        # Without a second use there is nothing to keep.
        keeps = self.loss == "impact" and self.impact_uses > 1
        return BatchUses(self.impact_batches, self.impact_uses) if keeps else ONCE

    @property
    def target_period(self) -> int:
        return self.impact_target_period or self.impact_batches * self.impact_uses

    def _check_together(self) -> None:
        if self.rho_const < self.c_const:
            raise UsageError(f"--rho_const must be at least --c_const, but {self.rho_const} is below {self.c_const}.")


@dataclass(frozen=True, kw_only=True)
class OptimizerOptions(Options):
    topic = "Optimizer"

    optimizer: str = option("rmsprop", one_of("rmsprop", "adam"), "Optimizer of the network weights.")
    lr: float = option(1e-3, above(0, 100), "Learning rate at the start of the schedule.", aliases=("learning_rate",))
    lr_warmup_updates: int = option(
        300, whole(0), "First updates, at most a tenth of all, over which the learning rate rises to its schedule."
    )
    rmsprop_alpha: float = option(
        0.99,
        Rule(float, "be a number of at least 0 and below 1", lambda v: 0 <= v < 1),
        "RMSProp: decay of the mean square.",
        RMSPROP,
    )
    rmsprop_eps: float = option(1e-5, above(0), "RMSProp: constant added to the divisor.", RMSPROP)
    adam_eps: float = option(1e-5, above(0), "Adam: constant added to the divisor.", flag_given("optimizer", "adam"))
    gradient_clip_by_norm_threshold: float = option(
        0.5, at_least(0), "Maximum norm of the gradient. 0: no clipping.", aliases=("max_grad_norm",)
    )
    lr_scheduler_steps: int = option(0, whole(0), "Updates until lr_end_value is reached. 0: all planned updates.")
    lr_end_value: float = option(0.0, between(0, 100), "Learning rate at the end of the schedule.")
