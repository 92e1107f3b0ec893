"""The numbers of the ordinal 2x2 games in docs/mixed-motive.md, by family and by name."""

from measured import markdown

from sparring.environments.ordinal_2x2.games import FAMILIES, NAMED, select_games


def spans(numbers):
    """Return sorted numbers as text, those in a row as FIRST-LAST."""
    ranges = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def numbers():
    """Return the numbers of each family, and of the games that have a name."""
    name_of = {select_games(name)[0]: name for name in NAMED}
    lines = []
    for family in FAMILIES:
        members = select_games(family)
        names = [
            f"{number} `{name}`" for number, name in sorted(name_of.items()) if number in members
        ]
        lines.append((f"`{family}`", spans(members), ", ".join(names) or "-"))
    return markdown(("family", "numbers", "with a name"), lines)


MARKERS = {"ordinal numbers": numbers}
