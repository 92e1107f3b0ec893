"""What is played: the games, and how many plays of them a step has."""

from __future__ import annotations

from operator import not_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from sparring.config.parts import Count, FewOrNone, FromOne, PluginConfig, Some, SomeOrNone, Strict
from sparring.core.foreign_text import check_label

Label = Annotated[str, AfterValidator(check_label)]


class EnvironmentConfig(Strict):
    """An environment to train on, or to hold out: weight 0. A text is its name."""

    name: str = Field(description="a hand-written game or any sequential OpenSpiel game")
    label: Label | None = Field(
        None,
        description="its name in metrics and baselines; null: name. Two sizes of one game need two",
    )
    options: dict[str, Any] = Field(
        default_factory=dict, description="options of the game, e.g. {players: 3}"
    )
    illegal: dict[str, Any] = Field(
        default_factory=dict,
        description="what an illegal reply costs: rule, penalty, retries, payoff",
    )
    weight: float = Field(
        1.0,
        ge=0,
        description="share of the games played; 0 holds it out: only warmed up and measured",
    )
    oracle: PluginConfig | None = Field(
        None,
        description=(
            "judges every turn of trained seats, for process rewards and regret; null: none"
        ),
    )
    outcome_gap: float | None = Field(
        None,
        gt=0,
        description="smallest difference of two outcomes, bounds shaping; null: from the game",
    )

    scale: float = Field(
        1.0,
        gt=0,
        description="factor of the game's payoffs in what credit sees; figures keep its units",
    )

    roles: dict[str, str] = Field(
        default_factory=dict,
        exclude_if=not_,
        description="policy of each role of this game, before what the run says",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, data: Any) -> Any:
        return {"name": data} if isinstance(data, str) else data

    @property
    def known_as(self) -> str:
        """The game's name in this run."""
        return self.label or self.name


class CandidatesConfig(Strict):
    """Several replies to each prompt of a trained seat, of which one is played."""

    count: int = Field(
        1, ge=1, le=1024, description="replies to each prompt, at most 1024; 1: no candidates"
    )
    commit: Literal["best", "any_best", "random"] = Field(
        "any_best",
        description="which is played: the first of the best, one of the best, or any of all",
    )
    explore: float = Field(
        0.0, ge=0, le=1, description="share of the decisions in which any of all is played instead"
    )
    by: Literal["rewards", "oracle"] = Field(
        "rewards",
        description="what judges them: the rewards of the run that read one turn alone, or the "
        "game's oracle",
    )


class SamplingConfig(Strict):
    """How replies are drawn."""

    max_new_tokens: Some = Field(2, description="longest reply in tokens, the stop token included")
    temperature: float = Field(1.0, ge=1e-6, le=1e6, description="sampling temperature")
    top_p: float = Field(1.0, gt=0, le=1, description="nucleus sampling; 1 is off")
    top_k: Count = Field(0, description="keep the k most probable tokens; 0 is off")


class RolloutConfig(SamplingConfig):
    """How games are played for training."""

    games_per_step: Some = Field(256, description="games played between two updates")
    group_size: Some = Field(
        1,
        description=(
            "games that share a deal, for group-relative estimators; divides games_per_step"
        ),
    )
    plan: PluginConfig = Field(
        PluginConfig(name="none"),
        description="where the games of a group begin: at the start, or as branches",
    )
    candidates: CandidatesConfig = CandidatesConfig()
    in_flight: Some = Field(
        4096,
        description="games running at the same time, for memory and speed; with threads=1 and "
        "float32 on a CPU another number changes no bit of a run",
    )
    starts: SomeOrNone = Field(
        0,
        description=(
            "fixed deals per game that are played again and again; 0: every group is dealt afresh"
        ),
    )
    max_turns: FromOne | None = Field(
        None,
        description="turns of all seats after which a game is truncated: it keeps what was paid so "
        "far, and estimators with a critic bootstrap (their option cut); a number or a schedule",
    )
    refills: FewOrNone = Field(
        0,
        description=(
            "how often a step plays more games in place of those that selection drops (DAPO)"
        ),
    )
    playouts: FewOrNone = Field(
        0,
        description=(
            "games played on from after every trained turn, to estimate its value; 0 plays none"
        ),
    )
    retries: FewOrNone = Field(
        2, description="how often a failed game begins anew before its group is dropped"
    )

    @model_validator(mode="after")
    def _groups_fit(self) -> RolloutConfig:
        if self.games_per_step % self.group_size:
            raise ValueError(
                f"group_size={self.group_size} must divide games_per_step={self.games_per_step}"
            )
        return self
