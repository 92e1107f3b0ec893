"""Descriptions of self-play algorithms in the columns of the survey's framework."""

from __future__ import annotations

import inspect

from studies.self_play.frame import Recipe


def columns(recipe: Recipe) -> tuple[str, str, str, str, str]:
    """Return population, row, solver, oracle and answer of a recipe, each in a few words."""
    return population(recipe), row(recipe), solver(recipe), oracle(recipe), answer(recipe)


def kind(recipe: Recipe) -> str:
    """Return the class of the run, or "" for the plain loop."""
    return recipe.kind.__name__ if recipe.kind else ""


def population(recipe: Recipe) -> str:
    """Return the contents of the population in words."""
    if kind(recipe) == "League":
        return "4 live agents and their checkpoints"
    if kind(recipe) == "Ladder":
        levels = f"{recipe.policies_per_round} live levels"
        freezes = {"plateau": ", lowest frozen on a plateau", "timer": ", lowest frozen by a timer"}
        return levels + "".join(word for name, word in freezes.items() if name in recipe.options)
    schedule = recipe.schedule
    if schedule.keep == 1:
        return "the live policy" + ("" if recipe.shared else " of each seat, never shared")
    members = "all policies so far"
    if schedule.gate is not None:
        members = f"policies that won more than {schedule.gate:.0%} against the previous member"
    if schedule.gain is not None:
        members = "policies that earned more than every member"
    if recipe.both_seats:
        members += ", each for all seats"
    return members if recipe.start == "random" else f"{members}; start: {recipe.start}"


def row(recipe: Recipe) -> str:
    """Return the opponents of a new policy in words."""
    named = {
        "League": "drawn opponent by opponent",
        "Ladder": "the mixture of the levels below",
        "Xdo": "equilibrium of the game with the members' actions",
        "Anytime": "the mixture that a best response exploits least",
        "Priority": "past policies by priority",
    }
    words = {
        "last": "the newest",
        "uniform": "all members equally",
        "delta_uniform": "the newest members equally",
        "pfsp": "members that beat the newest",
        "rectified": "for each member: the mixture without members that beat it",
        "correlated": "for each recommended member"
        if recipe.row.by_member
        else "the marginal of the other side",
    }
    text = named.get(kind(recipe)) or words.get(recipe.row.solver, "the mixture")
    share = recipe.row.self_share
    return f"{share:.0%} live, otherwise {text}" if share else text


def solver(recipe: Recipe) -> str:
    """Return the meta-solver with its options."""
    texts = {
        "League": "`pfsp`, three weightings",
        "Xdo": "linear program, whole game",
        "Anytime": "linear program, whole game",
        "Priority": "softmax of quality",
    }
    if kind(recipe) in texts:
        return texts[kind(recipe)]
    options = "".join(f" {name}={value}" for name, value in recipe.row.options.items())
    return f"`{recipe.row.solver}{options}`"


def oracle(recipe: Recipe) -> str:
    """Return the response oracle in words."""
    spec = recipe.oracle
    if spec.kind == "exact":
        return "best response"
    text = f"{spec.steps} step{'s' if spec.steps > 1 else ''}, {'warm' if spec.warm else 'fresh'}"
    return (
        f"{text}, best of {recipe.policies_per_round} by diversity"
        if kind(recipe) == "Diverse"
        else text
    )


def answer(recipe: Recipe) -> str:
    """Return the final policy in words."""
    if kind(recipe) == "League":
        return "the live main"
    if kind(recipe) == "Xdo":
        return "the row's equilibrium"
    named = {"last": "last", "average": "average", "mixture": "the solver's mixture"}
    return named[recipe.answer]


def steps(recipe: Recipe) -> str:
    """Return the first line of the docstring of the run's class, if the algorithm has one."""
    return (inspect.getdoc(recipe.kind) or "").split("\n")[0] if recipe.kind else ""
