"""What the seats of code words are told: words for a tiny model, sentences for a larger one."""

from __future__ import annotations

from collections.abc import Sequence

from sparring.environments.code_words.rules import TEAMS, Position, coded


def brief_key(key: int) -> str:
    """Return a team's key in brief style."""
    return f"key {key}"


def brief_secret(words: Sequence[str], secret: int) -> str:
    """Return a teller's secret word in brief style."""
    return f"word {words[secret]}"


def brief_said(words: Sequence[str], own: int, other: int) -> str:
    """Return the words said by the teller of one's own team and of the other in brief style."""
    return f"we {words[own]} they {words[other]}"


def brief_ending(words: Sequence[str], position: Position, team: int) -> str:
    """Return all but the keys in brief style, the own team's first."""
    said, guessed = position.said, position.guessed
    parts = (
        f"{who} say {words[said[one]]} word {words[position.deal.secret[one]]} "
        f"guess {words[guessed[one][0]]} {words[guessed[one][1]]}"
        for who, one in (("we", team), ("they", 1 - team))
    )
    return " ".join(parts)


def full_rules(words: Sequence[str], leak: float) -> str:
    """Return the rules in sentences."""
    return (
        "Two teams play one round: teller_a and guesser_a against teller_b and guesser_b. Each "
        f"team has a secret word, one of {', '.join(words)}, each equally likely; only the team's "
        "teller is told it. Both tellers say one of these words at the same moment, and all "
        "players hear both. Then each guesser names two words at the same moment: the secret word "
        "of its own team and that of the other team. A team gets 1 point if its own guesser names "
        f"its secret word, and loses {_points(leak)} if the other team's guesser names it. What "
        "one team gets the other team loses. Each team has a key that both of its players know "
        "and the other team does not; all keys are equally likely."
    )


def full_opening(words: Sequence[str], leak: float, team: int, role: str, key: int) -> str:
    """Return the rules, who a player is, and its team's key as a table in words."""
    said = ", ".join(
        f"{words[coded(word, key, len(words))]} for {name}" for word, name in enumerate(words)
    )
    kind = role.split("_")[0]
    mate = f"{'guesser' if kind == 'teller' else 'teller'}_{TEAMS[team]}"
    return (
        f"{full_rules(words, leak)}\n\nYou are {role}. You play with {mate}, against "
        f"teller_{TEAMS[1 - team]} and guesser_{TEAMS[1 - team]}. By your team's key one says "
        f"{said}. Your team may use its key or not."
    )


def full_secret(words: Sequence[str], secret: int) -> str:
    """Return a teller's secret word in a sentence."""
    return f"Your team's secret word is {words[secret]}."


def full_said(words: Sequence[str], team: int, said: Sequence[int]) -> str:
    """Return both said words in sentences, the own team's first."""
    order = (team, 1 - team)
    return " ".join(f"teller_{TEAMS[one]} said {words[said[one]]}." for one in order)


def full_ask(words: Sequence[str], guesser: bool) -> str:
    """Return the question that a player is to answer."""
    if guesser:
        return (
            "What are the secret words? Reply with exactly two words, your team's and then the "
            f"other team's, each one of: {', '.join(words)}."
        )
    return f"Which word do you say? Reply with exactly one of: {', '.join(words)}."


def full_ending(words: Sequence[str], position: Position, team: int) -> str:
    """Return all but the keys in sentences, the own team's first."""
    named = (
        f"The secret word of team {TEAMS[one]} was {words[position.deal.secret[one]]}; "
        f"guesser_{TEAMS[one]} named {words[mine]} for its own team and {words[theirs]} for the "
        "other."
        for one, (mine, theirs) in ((one, position.guessed[one]) for one in (team, 1 - team))
    )
    return " ".join((full_said(words, team, position.said), *named))


def _points(leak: float) -> str:
    """Return a number of points in words."""
    return f"{leak:g} point{'' if leak == 1 else 's'}"
