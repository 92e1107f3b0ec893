"""Where the plays of a run are played, and how far they may be ahead of what learns from them."""

from __future__ import annotations

import os
from operator import not_
from typing import Literal

from pydantic import Field, model_validator

from sparring.config.parts import Count, Gpus, Some, Strict

PINNED, FRESH = "pinned", "fresh"  # values of order
BINDING = ("lag", "order")  # keys on which the bytes of a run depend


class ScaleConfig(Strict):
    """Where plays are played: in the training process, or by workers beside it.

    With ``threads: 1`` and the sampler ``in_process``, ``lag`` and ``order`` alone change the bytes
    of a run. All other keys may be changed when a run goes on.
    """

    fleet: Literal["here", "processes", "ray"] = Field(
        "here",
        description="who plays: the training process; worker processes of this machine; or actors "
        "of Ray, on many machines",
    )
    workers: int = Field(
        0,
        ge=-1,
        le=4096,
        description="number of workers, each with one thread; 0: the training process plays; "
        "-1: one per core",
    )
    unit_games: Some = Field(
        32,
        description="plays that a worker is given, and plays again if it is lost, as one; groups "
        "stay whole",
    )
    lag: int = Field(
        0,
        ge=0,
        le=64,
        description="steps that the players' weights are behind the learner's: step s is played "
        "with the weights of step s - lag, while the steps between are learnt from; in fresh order "
        "the most that they may be behind",
    )
    order: Literal["pinned", "fresh"] = Field(
        "pinned",
        description="pinned: which weights play which step is a function of lag alone, so seeds "
        "bind; fresh: a step learns from what comes first, plays go on with newer weights, and no "
        "seed binds",
    )
    timeout: float | None = Field(
        None,
        gt=0,
        le=1e6,
        description="seconds that such a unit may take until its worker counts as hung; null: 20 "
        "times the median, and 60 at least",
    )
    restarts: Count = Field(10, description="how often a worker is started again in an hour")
    weights: Literal["pipe", "file", "ray"] | None = Field(
        None,
        description="how weights reach workers: with the message; as files that all workers can "
        "read; through Ray's object store; null: ray for fleet ray, file for others",
    )
    address: str | None = Field(
        None, description="of a Ray cluster that is running; null: one on this machine is started"
    )
    gpus: Gpus = Field(
        (),
        exclude_if=not_,
        description="numbers of this machine's GPUs that its workers take: shared out in their "
        "order among worker processes; all that a Ray has which is started here",
    )
    gpus_per_worker: float | None = Field(
        None,
        le=64,
        exclude_if=lambda value: value is None,
        description="GPUs that each actor of Ray reserves: a whole number, or less than 1 for "
        "several workers on one; null: none",
    )
    share_gpus: bool = Field(
        False,
        exclude_if=not_,
        description="whether learners, workers and replicas of vLLM may be given the same GPU",
    )
    mixed: bool = Field(
        False,
        description="whether workers may have other processors or versions, which gives up that "
        "seeds bind",
    )

    @model_validator(mode="after")
    def _fits(self) -> ScaleConfig:
        if self.workers and self.fleet == "here":
            raise ValueError(
                f"workers={self.workers} and fleet=here, which has none; write fleet: processes"
            )
        if not self.workers and self.fleet != "here":
            raise ValueError(
                f"fleet={self.fleet} and workers=0, so that nobody plays; write workers: -1 (one "
                "per core), or a number of them"
            )
        if self.order == FRESH and (not self.workers or not self.lag):
            lacking = "workers" if not self.workers else "lag"
            raise ValueError(
                f"order=fresh and {lacking}=0: workers are to play on while the process learns; "
                "write fleet: processes, workers: -1 (one per core) and lag: 2, or order: pinned"
            )
        if self.weights == "ray" and self.fleet != "ray":
            raise ValueError(
                f"weights=ray needs Ray, and fleet={self.fleet}; write weights: file, or leave "
                "it out"
            )
        if self.address is not None and self.fleet != "ray":
            raise ValueError(
                f"address={self.address} is of a Ray cluster, and fleet={self.fleet}; write "
                "fleet: ray"
            )
        return self

    @model_validator(mode="after")
    def _gpus_fit(self) -> ScaleConfig:
        each, own = self.gpus_per_worker, self.fleet == "ray" and self.address is None
        if self.gpus and self.fleet == "here":
            raise ValueError(
                f"gpus={list(self.gpus)} are for workers, and fleet={self.fleet}; write fleet: "
                "processes, or leave gpus out (learner.gpus is for learners)"
            )
        if each is not None and self.fleet != "ray":
            raise ValueError(
                f"gpus_per_worker={each:g} is what an actor of Ray reserves, and "
                f"fleet={self.fleet}; write gpus: [1, 2] (numbers of GPUs), or fleet: ray"
            )
        if each is not None and (each <= 0 or (each > 1 and not each.is_integer())):
            raise ValueError(
                f"gpus_per_worker={each:g} is no number of GPUs; write 1, 2 ..., a share of one "
                "such as 0.5, or null for workers without GPUs"
            )
        if self.gpus and self.fleet == "ray" and not own:
            raise ValueError(
                f"gpus={list(self.gpus)} are of this machine, and address={self.address} is of a "
                "cluster, which knows its own; leave gpus out and write gpus_per_worker: 1"
            )
        if own and bool(self.gpus) != (each is not None):
            raise ValueError(
                f"fleet=ray, gpus={list(self.gpus)} and gpus_per_worker={each}: a Ray that is "
                "started here is told which GPUs it has, and what a worker reserves; write both, "
                "such as gpus: [1, 2] and gpus_per_worker: 1"
            )
        return self

    @property
    def count(self) -> int:
        """Number of workers."""
        return self.workers if self.workers >= 0 else os.cpu_count() or 1
