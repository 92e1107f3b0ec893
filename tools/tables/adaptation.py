"""The table of docs/adaptation.md: exact ceilings of adapting to the styles of kuhn_bot and to biased moves."""

from measured import markdown

from sparring.environments.catalogue import make_game
from sparring.measure.attempt_tree import adaptation_ceiling
from sparring.play.players.biased import biased
from sparring.play.players.kuhn_bot import kuhn_bot

MOVES = ("rock", "paper", "scissors")
POOLS = (
    ("trained styles", "kuhn_poker", {"conservative": 0.3, "aggressive": 0.3, "intermediate": 0.4}),
    ("held-out styles", "kuhn_poker", {"passive": 1.0, "station": 1.0, "loose": 1.0}),
    (
        "bots that play one move three times as often as the others",
        "rock_paper_scissors",
        dict.fromkeys(MOVES, 1.0),
    ),
)
HEAD = (
    "pool",
    "role",
    "cards shown",
    "knows the opponent",
    "one policy",
    "headroom",
    "attempt 2",
    "attempt 3",
    "attempt 3, sum",
)


def pool(shares):
    """Return the opponents of these names."""
    return {
        name: biased(weights={name: 3}) if name in MOVES else kuhn_bot(style=name)
        for name in shares
    }


def ceilings():
    """Return what adapting can earn, by pool and role."""
    rows = []
    for title, name, shares in POOLS:
        game = make_game(name)
        for role in game.roles if name == "kuhn_poker" else game.roles[:1]:
            for reveal in (False, True) if name == "kuhn_poker" else (False,):
                ceiling = adaptation_ceiling(
                    game, role=role, opponents=pool(shares), shares=shares, reveal=reveal
                )
                values = (
                    f"{value:.4f}" for value in (ceiling.best, ceiling.fixed, ceiling.headroom)
                )
                parts = (
                    f"{ceiling.closed_share(value):.1%}"
                    for value in (*ceiling.most[1:], ceiling.total[2])
                )
                rows.append(
                    (
                        title,
                        f"`{role}`",
                        ("-", "no", "yes")[0 if name != "kuhn_poker" else 1 + reveal],
                        *values,
                        *parts,
                    )
                )
    return markdown(HEAD, rows)


MARKERS = {"ceilings": ceilings}
