"""An introduction to a game: its rules, exact values, a sample episode, next steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sparring.config.plugins import registry
from sparring.config.recipe import load_recipe, recipe_names
from sparring.core.errors import SparringError
from sparring.core.records import Episode
from sparring.core.rng import Stream
from sparring.environments.base import Environment, is_searchable_play
from sparring.environments.catalogue import make_game
from sparring.environments.foreign import reason_not_searchable
from sparring.environments.openspiel.people import (
    for_people,
    list_actions,
    revealed_by,
    rules_of,
    seen_by,
)
from sparring.measure.oracle_choice import choose_oracle
from sparring.measure.references import references_of
from sparring.play.players.random import random
from sparring.play.rollout import play
from sparring.play.spec import EpisodeSpec

SEED = 0  # seed of the sample episode
MAX_TURNS_SHOWN = 4  # number of shown turns: the first three and the last one
MAX_PROMPTS_SHOWN = 6  # turns shown of an environment without searchable rules
MAX_BRIEF_CHARACTERS = 200  # shown characters of the prompt in brief style
LARGE_MODELS = ("smol", "paper", "gemma")  # in the names of recipes that need a pretrained model
MAX_ACTIONS_LISTED = 12  # legal actions listed per turn


@dataclass(frozen=True, kw_only=True, slots=True)
class SampleTurn:
    """One turn of a sample episode as the acting seat sees it; ``legal`` may be empty."""

    role: str
    view: str
    legal: str
    action: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SamplePlay:
    """A deterministic episode: its first turns, its last turn and its ending."""

    chooser: str  # "moves at random", or "moves of the oracle minimax"
    brief: str  # first prompt in brief style, as a tiny model reads it
    turns: tuple[SampleTurn, ...]
    left_out: int  # turns before the last one that are not shown
    ending: str


def rules_text(name: str) -> str:
    """Return the rules of a game with its default options, in plain words."""
    return rules_of(for_people(make_game(name)))


def sample_play(name: str) -> SamplePlay:
    """Return a deterministic episode of a game with its default options.

    In games of one seat an exact oracle plays, if the game has one; otherwise actions are random.
    """
    game = make_game(name)
    full_style_game = for_people(game)
    state, stream = game.reset(Stream.from_seed(SEED)), Stream.from_seed(SEED).child("sample")
    oracle = choose_oracle(game)[0] if game.num_seats == 1 else None
    assert is_searchable_play(state)
    brief, turns = state.observe(state.seat).text, list[SampleTurn]()
    while not state.done and state.plies < game.max_turns:
        verdict = oracle.judge([state])[0] if oracle is not None else None
        legal = state.legal_actions()
        candidates = [action for action in legal if verdict is None or action in verdict.best]
        action = candidates[stream.integer(state.plies, len(candidates))]
        turns.append(
            SampleTurn(
                role=game.roles[state.seat],
                view=seen_by(full_style_game, state, state.seat),
                legal=list_actions(legal, MAX_ACTIONS_LISTED).replace(" (? lists all)", ""),
                action=action,
            )
        )
        state.apply(action)
    facts = revealed_by(full_style_game, state)
    return SamplePlay(
        chooser="moves at random" if oracle is None else f"moves of the oracle {oracle.name}",
        brief=f"{brief[:MAX_BRIEF_CHARACTERS]} ..." if len(brief) > MAX_BRIEF_CHARACTERS else brief,
        turns=_shorten(turns, MAX_TURNS_SHOWN),
        left_out=max(0, len(turns) - MAX_TURNS_SHOWN),
        ending="\n".join(filter(None, [facts, _payoffs(full_style_game.roles, state.returns)])),
    )


def _shorten(turns: Sequence[SampleTurn], max_turns: int) -> tuple[SampleTurn, ...]:
    return tuple(turns) if len(turns) <= max_turns else (*turns[: max_turns - 1], turns[-1])


def _payoffs(roles: Sequence[str], returns: Sequence[float]) -> str:
    texts = (f"{role} {value:g}" for role, value in zip(roles, returns, strict=True))
    return f"Payoffs: {', '.join(texts)}."


def format_sample(play: SamplePlay) -> list[str]:
    """Return a sample episode as lines of plain text."""
    lines = []
    for index, turn in enumerate(play.turns):
        if index == len(play.turns) - 1 and play.left_out:
            lines += [f"... {play.left_out} more turn(s) ...", ""]
        lines += [f"{turn.role}:", *_indent(turn.view)]
        lines += [f"    Legal actions: {turn.legal}"] if turn.legal else []
        lines += [f"  > {turn.action}", ""]
    return [*lines, *play.ending.split("\n")]


def _indent(text: str) -> list[str]:
    return [f"    {line}" for line in text.split("\n") if line.strip()]


def first_prompts(name: str) -> list[str]:
    """Return the first prompt of each seat, as lines."""
    episode, lines = _random_play(name), list[str]()
    for seat, role in enumerate(episode.roles):
        first_turn = next((turn for turn in episode.turns if turn.seat == seat), None)
        if first_turn is not None:
            lines += [f"First prompt of {role}:", "", *_indent(first_turn.prompt), ""]
    return lines[:-1]


def format_random_sample(name: str) -> str:
    """Return a random episode and its payoffs, for an environment without searchable rules."""
    episode = _random_play(name)
    turns = [
        SampleTurn(role=episode.roles[turn.seat], view=turn.prompt, legal="", action=turn.reply)
        for turn in episode.turns
    ]
    sample = SamplePlay(
        chooser="replies at random",
        brief="",
        turns=_shorten(turns, MAX_PROMPTS_SHOWN),
        left_out=max(0, len(turns) - MAX_PROMPTS_SHOWN),
        ending=_payoffs(episode.roles, episode.returns),
    )
    return "\n".join(format_sample(sample))


def _random_play(name: str) -> Episode:
    """Return a deterministic episode of random actions; prompts are in full style if possible."""
    has_style = registry.is_known("environments", name) and "style" in (
        registry.load("environments", name).options
    )
    environment: Environment = make_game(name, options={"style": "full"} if has_style else {})
    stream, seats = Stream.from_seed(SEED), environment.num_seats
    spec = EpisodeSpec(
        game=environment,
        episode_id=0,
        group_id=0,
        deal=stream,
        stream=stream.child("sample"),
        seats=("random",) * seats,
        trained=(False,) * seats,
    )
    (episode,) = play([spec], {"random": random()}, retries=0)
    return episode


def format_exact_values(name: str) -> str:
    """Return a game's exact values with its default options; "" if it is too large to enumerate."""
    game = make_game(name)
    refs = references_of(game)
    if refs is None:
        return ""
    uniform = refs.uniform
    sentences = [f"{uniform.num_info_states:,} information states; policies are measured exactly."]
    if game.num_seats > 1:
        sentences.append(
            f"Uniform play has NashConv {uniform.nash_conv:.4g}; an equilibrium has 0."
        )
    texts = {
        "equilibrium": "An equilibrium",
        "best team": "The best team",
        "best play": "Best play",
    }
    for player, values in ((texts[refs.best], refs.values), ("Uniform play", uniform.values)):
        sentences += [f"{player} is worth {_by_role(game, values)}."] if values is not None else []
    return " ".join(sentences)


def _by_role(game: Environment, values: Sequence[float]) -> str:
    numbers = [f"{round(value, 4) + 0.0:.4g}" for value in values]
    if len(set(numbers)) == 1:
        return numbers[0] + (" to each seat" if game.num_seats > 1 else "")
    return ", ".join(f"{value} to {role}" for role, value in zip(game.roles, numbers, strict=True))


@cache
def recipes_for_game(name: str) -> tuple[str, ...]:
    """Return the recipes that train on a game; recipes for a laptop come first."""
    recipes = [recipe for recipe in recipe_names() if name in _games_of(recipe)]
    recipes.sort(
        key=lambda recipe: (any(size in recipe for size in LARGE_MODELS), recipe.count("/"), recipe)
    )
    return tuple(recipes)


@cache
def _games_of(recipe: str) -> tuple[str, ...]:
    sections = load_recipe(recipe).get("environments", ())
    return tuple(game["name"] for game in sections if game.get("weight", 1))


def explain_game(name: str) -> list[str]:
    """Return the paragraphs that follow a game's description, from the rules to the next steps."""
    parts = []
    has_rules = not reason_not_searchable(make_game(name))
    if has_rules:
        parts.append(f"Rules\n\n{rules_text(name)}")
        parts += [f"Exact values\n\n{exact}"] if (exact := format_exact_values(name)) else []
    try:
        if has_rules:
            sample = sample_play(name)
            sample_body, chooser = "\n".join(format_sample(sample)), sample.chooser
        else:
            parts.append("\n".join(["The first turns", "", *first_prompts(name)]))
            sample_body, chooser = format_random_sample(name), "replies at random"
        parts.append(
            f"A sample episode with default options, {chooser}, as the seats see it"
            f"\n\n{sample_body}"
        )
    except SparringError as error:
        parts.append(f"No sample episode: {error}")
    else:
        brief = "In brief style, for tiny models, the first turn reads:"
        parts += [f"{brief} {sample.brief}"] if has_rules else []
    return [*parts, _next_steps(name)]


def _next_steps(name: str) -> str:
    recipes = recipes_for_game(name)
    lines = ["Next steps", ""]
    if recipes:
        note = (
            f"   ({len(recipes)} recipes train on it: {', '.join(recipes)})" if recipes[1:] else ""
        )
        lines.append(f"  sparring train {recipes[0]}{note}")
    else:
        lines.append(f"  sparring train kuhn-tiny environments.0.name={name} --run runs/{name}")
    lines += [
        "  sparring play RUN          play it against your trained policy",
        f"  sparring evaluate --agent random --environment {name}",
    ]
    return "\n".join(lines)
