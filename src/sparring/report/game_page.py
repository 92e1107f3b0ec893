"""What a newcomer asks of a game: its rules, exact values, a sample play, where to go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sparring import registry
from sparring.environments.catalogue import make_game
from sparring.environments.openspiel.base import Game, State
from sparring.environments.openspiel.people import for_people, listed, rules_of, seen_by
from sparring.errors import SparringError
from sparring.measure.oracle_choice import chosen_oracle
from sparring.measure.references import References, references_of
from sparring.recipe import load_recipe, recipe_names
from sparring.report.open_play import is_open, rules_lines, sample_text
from sparring.rng import Stream

SEED = 0  # of the sample play
TURNS = 4  # a longer play is shown up to the last but one of these, and its last turn
READ = 200  # letters of the brief wording
LARGE = ("smol", "paper", "gemma")  # in the names of recipes that want a pretrained model
ACTIONS = 12  # legal actions listed per turn


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleTurn:
    """One turn of a sample play, as the seat that acts sees it."""

    role: str
    seen: str
    legal: str
    action: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplePlay:
    """A play, always the same: its first turns and its last, and how it ended."""

    drawn: str  # how its actions were chosen
    brief: str  # what a tiny model is told at the first turn
    turns: tuple[SampleTurn, ...]
    left_out: int  # turns before the last one that are not shown
    ending: str


def rules_text(name: str) -> str:
    """Return the rules of a game with its default options, in plain words."""
    return rules_of(for_people(make_game(name)))


def sample_play(name: str) -> SamplePlay:
    """Return a play of a game with its default options, always the same.

    A seat alone plays as an exact oracle says, where there is one; else actions are random.
    """
    game = make_game(name)
    told = for_people(game)
    state, draws = game.reset(Stream.from_seed(SEED)), Stream.from_seed(SEED).child("sample")
    oracle = chosen_oracle(game)[0] if game.num_seats == 1 else None
    brief, turns = state.observe(state.seat).text, list[SampleTurn]()
    while not state.done and state.plies < game.max_turns:
        verdict = oracle.judge([state])[0] if oracle is not None else None
        legal = state.legal_actions()
        choice = [action for action in legal if verdict is None or action in verdict.best]
        action = choice[draws.integer(state.plies, len(choice))]
        turns.append(_turn(told, state, action))
        state.apply(action)
    shown = turns if len(turns) <= TURNS else [*turns[: TURNS - 1], turns[-1]]
    return SamplePlay(
        drawn="at random" if oracle is None else f"as the oracle {oracle.name} says",
        brief=brief if len(brief) <= READ else f"{brief[:READ]} ...",
        turns=tuple(shown),
        left_out=len(turns) - len(shown),
        ending=_ending(told, state),
    )


def _turn(told: Game, state: State, action: str) -> SampleTurn:
    """Return what is shown of the turn that is due."""
    return SampleTurn(
        role=state.game.roles[state.seat],
        seen=seen_by(told, state, state.seat),
        legal=listed(state.legal_actions(), ACTIONS).replace(" (? lists all)", ""),
        action=action,
    )


def _ending(told: Game, state: State) -> str:
    """Return what was hidden, and what each seat got."""
    hidden = told.revealed(told.state_of(state.node))
    got = ", ".join(
        f"{role} {value:g}" for role, value in zip(told.roles, state.returns, strict=True)
    )
    return "\n".join(part for part in (hidden, f"Payoffs: {got}.") if part)


def sample_lines(play: SamplePlay) -> list[str]:
    """Return a sample play as lines of plain text."""
    lines = []
    for number, turn in enumerate(play.turns):
        if number == len(play.turns) - 1 and play.left_out:
            lines += [f"... {play.left_out} more turn(s) ...", ""]
        seen = [line for line in turn.seen.split("\n") if line]
        lines += [f"{turn.role}:", *(f"    {line}" for line in seen)]
        lines += [f"    Legal actions: {turn.legal}", f"  > {turn.action}", ""]
    return [*lines, *play.ending.split("\n")]


def exact_text(name: str) -> str:
    """Return what is known exactly of a game with its default options; "" where it is large."""
    game = make_game(name)
    known = references_of(game)
    if known is None:
        return ""
    uniform = known.uniform
    said = [
        f"{uniform.num_info_states:,} information states, so that policies are measured exactly."
    ]
    if game.num_seats > 1:
        said.append(f"NashConv of uniform play is {uniform.nash_conv:.4g}, of an equilibrium 0.")
    return " ".join([*said, *_worth(game, known)])


def _worth(game: Game, known: References) -> list[str]:
    """Return sentences on the values of best and of uniform play."""
    label = {
        "equilibrium": "An equilibrium",
        "best team": "The best team",
        "best play": "Best play",
    }
    rows = [(label[known.best], known.values), ("Uniform play", known.uniform.values)]
    return [
        f"{who} is worth {_by_role(game, values)}." for who, values in rows if values is not None
    ]


def _by_role(game: Game, values: Sequence[float]) -> str:
    """Return values per role; one number where all are alike."""
    shown = [f"{round(value, 4) + 0.0:.4g}" for value in values]
    if len(set(shown)) == 1:
        return shown[0] + (" to each seat" if game.num_seats > 1 else "")
    return ", ".join(f"{value} to {role}" for role, value in zip(game.roles, shown, strict=True))


@cache
def recipes_with(name: str) -> tuple[str, ...]:
    """Return the recipes that train on a game, those for a laptop first."""
    using = [recipe for recipe in recipe_names() if name in _games_of(recipe)]
    return tuple(
        sorted(
            using,
            key=lambda recipe: (any(size in recipe for size in LARGE), recipe.count("/"), recipe),
        )
    )


@cache
def _games_of(recipe: str) -> tuple[str, ...]:
    """Return the names of the games that a recipe trains on."""
    sections = load_recipe(recipe).get("environments", ())
    return tuple(game["name"] for game in sections if game.get("weight", 1))


def explain_game(name: str) -> list[str]:
    """Return the paragraphs that follow a game's own description, from rules to what is next."""
    if is_open(make_game(name)):
        return [*_explain_open(name), _next(name)]
    parts = [f"Rules\n\n{rules_text(name)}"]
    exact = exact_text(name)
    parts += [f"Exact values\n\n{exact}"] if exact else []
    try:
        play = sample_play(name)
    except SparringError as error:
        parts.append(f"No sample play: {error}")
    else:
        head = f"A sample play with default options, moves {play.drawn}, as the seats see it"
        parts += ["\n".join([head, "", *sample_lines(play)])]
        parts.append(f"In brief style, for tiny models, the first turn reads: {play.brief}")
    return [*parts, _next(name)]


def _explain_open(name: str) -> list[str]:
    """Return the paragraphs on an environment that is told as it comes."""
    try:
        told, sample = "\n".join(rules_lines(name)), sample_text(name)
    except SparringError as error:
        return [f"No sample play: {error}"]
    head = "A sample play with default options, replies at random, as the seats see it"
    return [f"The first turns\n\n{told}", f"{head}\n\n{sample}"]


def _next(name: str) -> str:
    """Return what to do next."""
    using = recipes_with(name)
    lines = ["Where to go on", ""]
    if using:
        more = f"   ({len(using)} recipes train on it: {', '.join(using)})" if using[1:] else ""
        lines.append(f"  sparring train {using[0]}{more}")
    else:
        lines.append(f"  sparring train kuhn-tiny environments.0.name={name} --run runs/{name}")
    lines += [
        "  sparring play RUN          play it yourself, against what you have trained",
        f"  sparring evaluate --agent random --environment {name}",
    ]
    page = (
        f"docs/methods/environments-{name}.md" if name in registry.built_in("environments") else ""
    )
    return "\n".join([*lines, *([f"  {page}"] if page else [])])
