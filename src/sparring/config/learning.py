"""What is learnt from plays, and how the weights are updated."""

from __future__ import annotations

from operator import not_
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from sparring.config.parts import (
    Few,
    FewOrNone,
    Gpus,
    NotNegative,
    Number,
    PluginConfig,
    Positive,
    Some,
    Strict,
)


class LossConfig(PluginConfig):
    """A loss term and its weight in the sum."""

    weight: Number = Field(1.0, description="factor of this term; a number or a schedule")


class RewardConfig(PluginConfig):
    """A reward that shapes the game's own, and its weight."""

    weight: Number = Field(1.0, description="factor of this component; a number or a schedule")


Decay = Annotated[float, Field(ge=0, lt=1)]
Reduction = Literal["token_mean", "sequence_mean", "agent_mean", "constant"]


class UpdateConfig(Strict):
    """How the weights of a policy are updated."""

    learning_rate: NotNegative = Field(
        1e-3, description="AdamW's step size; a number or a schedule"
    )
    betas: tuple[Decay, Decay] = Field((0.9, 0.95), description="AdamW's moment decays")
    weight_decay: float = Field(0.0, ge=0, description="AdamW's decoupled weight decay")
    gradient_norm: float = Field(1.0, gt=0, description="gradients are scaled down to this norm")
    order: Literal["together", "reverse_turns"] = Field(
        "together", description="all turns at once, or last turns first (SeeUPO)"
    )
    epochs: Few = Field(1, description="passes over the data of a step")
    minibatches: Few = Field(1, description="optimiser updates per pass")
    split: Literal["episodes", "sequences"] = Field(
        "episodes",
        description=(
            "what minibatches never part: a whole game, all its seats; or one seat's sequence"
        ),
    )
    micro_tokens: Positive = Field(
        32768, description="tokens per forward pass; bounds memory, changes nothing else"
    )
    leaves: int = Field(
        1,
        ge=1,
        le=1024,
        description=(
            "parts of a minibatch whose gradients are added along a fixed tree, a power of 2: the "
            "bits depend on it, and not on who computes a part"
        ),
    )
    reduction: Reduction = Field(
        "token_mean",
        description=(
            "how token losses become one number; agent_mean: every play weighs the same, in it "
            "every conversation of a seat, and in it every token"
        ),
    )
    reduction_constant: float = Field(
        1.0, gt=0, description="divisor per sequence of the constant reduction"
    )
    average: float = Field(
        0.0,
        ge=0,
        lt=1,
        description=(
            "decay per update of the EMA weights, which are evaluated and exported; at update n at "
            "most n / (n + 4); 0: off"
        ),
    )

    master_weights: bool = Field(
        False,
        description=(
            "keep a copy of each weight and AdamW's moments in float32, where the weights have 16 "
            "bits (model.dtype): updates too small for those are not lost"
        ),
    )

    @field_validator("leaves")
    @classmethod
    def _halves(cls, value: int) -> int:
        return power_of_2("leaves", value)


class LearnerConfig(UpdateConfig):
    """How the weights are updated, and by how many learners."""

    ranks: int = Field(
        1,
        ge=1,
        le=64,
        description=(
            "learners, each a process that computes its share of the leaves: a power of 2, at most "
            "leaves; of the run, not of a policy"
        ),
    )
    sharding: Literal["none", "fsdp2"] = Field(
        "none",
        description=(
            "fsdp2 splits weights, gradients and optimiser among the learners; of the run, not of "
            "a policy"
        ),
    )
    gradient_sync: Literal["leaf", "pass"] = Field(
        "leaf",
        description=(
            "when split learners add their gradients: after each leaf, with the bits of one "
            "learner, or after each forward pass, so that none holds a whole gradient; the same "
            "where a leaf is one pass"
        ),
    )
    gpus: Gpus = Field(
        (),
        exclude_if=not_,
        description=(
            "numbers of this machine's GPUs that learners take, one each, learner 0 the first; "
            "empty: with model.device: cuda learner r takes GPU r; of the run, not of a policy"
        ),
    )

    @property
    def shards(self) -> bool:
        """Whether what is trained is split among several learners."""
        return self.sharding != "none" and self.ranks > 1

    @model_validator(mode="after")
    def _fits(self) -> LearnerConfig:
        power_of_2("ranks", self.ranks)
        check_leaves(self, self.ranks)
        if self.gpus and len(self.gpus) != self.ranks:
            raise ValueError(
                f"gpus={list(self.gpus)} and ranks={self.ranks}: each learner takes one GPU; write "
                f"{self.ranks} numbers, or leave gpus out: learner r takes GPU r"
            )
        return self


def power_of_2(name: str, value: int) -> int:
    """Return a number that is a power of 2, or raise ValueError.

    Args:
        name: of its key.
        value: the number, at least 1.
    """
    if value & (value - 1):
        below = 1 << (value.bit_length() - 1)
        raise ValueError(f"{name}={value} is no power of 2; write {below} or {2 * below}")
    return value


def check_leaves(own: UpdateConfig, ranks: int, where: str = "") -> None:
    """Raise ValueError if a policy has fewer leaves than the run has learners.

    Args:
        own: how its weights are updated.
        ranks: learners of the run.
        where: what the message begins with.
    """
    if ranks > own.leaves:
        raise ValueError(
            f"{where}ranks={ranks} is more than leaves={own.leaves}, so some would have nothing to "
            f"compute; write leaves: {ranks}, or a multiple"
        )


class ProcessConfig(Strict):
    """The reward model, trained beside the policy on pairs of games.

    It is trained where the estimator reads its step rewards (`oprl`).
    """

    learning_rate: NotNegative | None = Field(
        None, description="AdamW's step size; a number or a schedule; null: the learner's"
    )
    updates: Few = Field(
        1, description="optimiser updates per step, each on all pairs of the step, before credit"
    )
    pairs: Literal["one_to_one", "all"] = Field(
        "one_to_one",
        description=(
            "no game in two pairs, best with worst; or every better game with every worse one of "
            "its start and role"
        ),
    )


class WarmupConfig(Strict):
    """Optional supervised start: imitate random legal play, or a player's, for a few seconds."""

    updates: FewOrNone = Field(0, description="updates of supervised play; 0 is off")
    games: Some = Field(256, description="games of imitated play per update")
    player: PluginConfig | None = Field(
        None,
        exclude_if=not_,
        description=(
            "who sits in every seat and is imitated, e.g. {name: biased, weights: {rock: 3}}; "
            "null: random legal play"
        ),
    )
    learning_rate: float = Field(3e-3, gt=0, description="step size during warm-up")
