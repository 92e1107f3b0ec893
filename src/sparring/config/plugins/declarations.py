"""The optional names that a plug-in's module may declare beside the plug-in's function."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class ModuleDeclarations:
    """What a plug-in's module declares; a default holds where the module lacks the name."""

    # of any slot
    NEEDS_BY: Mapping[str, Mapping[Any, set[str]]] = field(default_factory=dict)
    """option -> value -> names of what it needs besides NEEDS"""
    PRESETS: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """name -> options that reproduce a published variant"""
    REMOVED: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    """options of earlier versions -> (their default, the last version that had them)"""
    PLUGINS: Sequence[str] = ()  # plug-ins of the module, beside the function with its name
    PACKAGE: str | None = None  # of a sink: the package that it imports

    # of estimators
    REQUIRES: Mapping[str, Collection[str]] = field(default_factory=dict)
    """what a configuration must also have; see ``config.parts.check_requires``"""
    GROUP_RELATIVE: bool | Mapping[str, Any] | Sequence[Mapping[str, Any]] = False
    """whether it compares the plays of one initial state, so that a group of one teaches nothing;
    or option -> the values with which it does, all options together, or a list of such cases"""
    CRITIC: str = "value"  # of a state; or "contribution" of a turn to the return
    LEVEL: Literal["turn", "token"] = "turn"  # of an array that it returns

    # of losses and rewards
    TRAINS: bool = True  # whether a loss can train the policy alone, unlike a factor
    CORRECTS: bool = False  # whether a loss corrects for older weights, as ``scale.lag`` needs
    READS: str = ""  # "turn": a reward for a turn depends on that turn alone

    # of players: functions of the player's options
    style_of: Callable[..., str] | None = None  # returns the wording that the player is used to
    words_of: Callable[..., frozenset[str] | None] | None = None  # returns its words; None: any
    identity_of: Callable[..., Any] | None = None  # returns what play depends on besides options
    is_mixture: Callable[..., bool] | None = None  # returns whether it stands for several players

    # of context strategies and knowledge
    GROWS: bool = False  # whether a strategy always shows everything, and is not called
    WORDS: Sequence[str] = ()  # that a strategy writes
    EMBEDDING: str | None = None  # option of knowledge that names an embedding

    # of matchmakers and meta-solvers
    SOLVER: str | None = None  # option of a matchmaker that names a meta-solver
    SIDES: str | None = None  # option of a matchmaker that gives each side its own population
    TWO_SIDED: bool = False  # whether a meta-solver is for two sides alone
    READS_PAYOFFS: bool = True  # whether a meta-solver uses payoffs


_NAMES = tuple(item.name for item in fields(ModuleDeclarations))


def declarations_of(module: ModuleType) -> ModuleDeclarations:
    """Return what a plug-in's module declares now."""
    return ModuleDeclarations(
        **{name: getattr(module, name) for name in _NAMES if hasattr(module, name)}
    )
