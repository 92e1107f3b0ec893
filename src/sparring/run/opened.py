"""A step as its plays begin, and the plays that it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparring.config import RunConfig
from sparring.engine.base import Engine
from sparring.league.payoffs import Payoffs
from sparring.league.starts import arms, starts
from sparring.refs import PlayerRef
from sparring.rollout.spec import EpisodeSpec
from sparring.run.methods import Methods
from sparring.run.state import LEAGUE, RunState
from sparring.selection.curricula.base import ArmBook

if TYPE_CHECKING:
    from sparring.engine.published import Pinned


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """A step as its plays begin: everything that they are a function of, but for the
    configuration.

    With ``scale.lag`` it is opened while earlier steps are still to be learnt from.
    """

    step: int
    learnt: int  # steps that had been learnt from
    members: tuple[PlayerRef, ...] = ()
    curriculum: Mapping[str, Any] = field(default_factory=dict)  # the state of the arm book
    payoffs: Payoffs = field(default_factory=Payoffs)
    pinned: Pinned | None = None  # the weights it is played with; None: those of now
    live: str = ""  # the policy of a league that alone learns; empty: all do

    @classmethod
    def of(cls, engine: Engine, state: RunState, step: int, pinned: Pinned | None = None) -> Opened:
        """Return a step as it is opened now.

        Args:
            engine: whose members may be met.
            state: of the run now.
            step: that is opened.
            pinned: the weights that it is played with.
        """
        return cls(
            step=step,
            learnt=state.step,
            members=engine.members,
            curriculum=state.json("curriculum"),
            payoffs=state.payoffs,
            pinned=pinned,
            live=state.json(LEAGUE).get("live", ""),
        )


def book_of(config: RunConfig, engine: Engine, opened: Opened) -> ArmBook:
    """Return the curriculum's records as they were when a step was opened."""
    return ArmBook(arms(engine.environments, config.rollout.starts), opened.curriculum)


def specs_of(
    config: RunConfig,
    engine: Engine,
    methods: Methods,
    opened: Opened,
    *,
    book: ArmBook,
    progress: float,
    refill: int = 0,
) -> list[EpisodeSpec]:
    """Return the games that a step begins with, or those of a refill; see ``starts``."""
    return starts(
        opened.step,
        games=engine.environments,
        rollout=config.rollout,
        matchmaker=methods.matchmaker,
        members=opened.members,
        root=engine.root,
        progress=progress,
        curriculum=methods.curriculum,
        book=book,
        refill=refill,
        payoffs=opened.payoffs,
        bots=config.bots,
        seats=engine.seats,
        mixtures=methods.mixtures,
        learners=methods.learners,
        tags=config.league.tags,
        live=opened.live,
    )
