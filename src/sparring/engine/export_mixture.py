"""A mixture of a run's members as a folder: a model folder for each, and the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from sparring.engine.export import CARD, chosen, export, let_read, seat_command
from sparring.engine.local import LocalEngine
from sparring.engine.policy import Policy
from sparring.environments.base import side_numbers, teams_of
from sparring.errors import ConfigError
from sparring.players.exported_files import ExportedMixture, ExportedSides, Mixed, write_exported
from sparring.players.members import MemberMixture
from sparring.refs import MAIN, PlayerRef

DRAWN = "Before each play one of these members is drawn for each team, by its weight"
SIDES = ("first side", "second side")
MIXTURE = """# {title}

{drawn}. Each is a model folder
with a model card of its own; `sparring.json` has the weights.

{table}
With Sparring it is one player:

```
{seat}
```
"""


class _Part(NamedTuple):
    """A member in a side: a snapshot of a policy, with its weight there."""

    policy: Policy
    member: PlayerRef
    weight: float


def export_mixture(
    engine: LocalEngine,
    folder: Path,
    mixture: MemberMixture,
    *,
    step: int,
    answer: str,
    dtype: str | None = None,
    adapter: bool = False,
    policy: str | None = None,
) -> None:
    """Write a mixture of members: each that has weight as ``export`` writes it, and the weights.

    Where each of two sides has weights and a policy of its own, a member is in each side the
    snapshot of the side's policy.

    Args:
        engine: of the run.
        folder: where to; each member is a folder in it.
        mixture: of the run's members.
        step: of the checkpoint.
        answer: the run's answer that the mixture is, such as "nash".
        dtype: as for ``export``.
        adapter: as for ``export``.
        policy: whose snapshots the members are, where several policies share a side; None: there
            is one in each side.

    Raises:
        ConfigError: it is not clear which policy is meant.
        SparringError: as for ``export``.
    """
    sides = [
        _parts(engine, own, policy, side if len(mixture.sides) > 1 else None)
        for side, own in enumerate(mixture.sides)
    ]
    parts = {name: part for own in sides for name, part in own.items()}
    for name, part in parts.items():
        export(
            engine,
            folder / name,
            step=step,
            dtype=dtype,
            adapter=adapter,
            policy=part.policy.name,
            member=part.member,
        )
    weights = [{name: part.weight for name, part in own.items()} for own in sides]
    (folder / CARD).write_text(
        MIXTURE.format(
            title=f"{engine.config.name}, step {step}: mixture of members ({answer})",
            drawn=DRAWN + ("" if len(weights) == 1 else " in the team's side"),
            table=_table(list(parts), weights),
            seat=seat_command(engine, next(iter(parts.values())).policy, folder.name),
        ),
        encoding="utf-8",
    )
    said: Mixed
    if len(weights) == 1:
        said = ExportedMixture(answer=answer, step=step, members=weights[0])
    else:
        said = ExportedSides(answer=answer, step=step, sides=(weights[0], weights[1]))
    write_exported(folder, said)
    let_read(folder)


def _parts(
    engine: LocalEngine, weights: Mapping[PlayerRef, float], policy: str | None, side: int | None
) -> dict[str, _Part]:
    """Return the members by the names of their folders.

    Args:
        engine: of the run.
        weights: of the members.
        policy: as for ``export_mixture``.
        side: the number of the side whose weights these are; None: of all sides.

    Raises:
        ConfigError: as for ``export_mixture``.
    """
    found: dict[str, _Part] = {}
    for who, weight in weights.items():
        if engine.apart:
            own, name = chosen(engine, who.name or MAIN), str(who)
            if policy not in (None, own.name):
                raise ConfigError(
                    f"--policy {policy}: {who} is a snapshot of {own.name}; leave --policy out, "
                    "and each member is written as what it is."
                )
        elif side is None or policy is not None or len(engine.policies) == 1:
            own, name = chosen(engine, policy), str(who)
        else:
            own = chosen(engine, _policy_in(engine, side))
            name = str(who.of(own.name))
        found[name] = _Part(own, who, weight)
    return found


def _policy_in(engine: LocalEngine, side: int) -> str:
    """Return the policy of a side, in all environments that are trained on.

    Raises:
        ConfigError: there are several.
    """
    found = {
        name: game.name
        for game, weight in engine.environments
        for number, (name, _) in zip(
            side_numbers(tuple(teams_of(game))), engine.seats(game), strict=True
        )
        if weight and number == side
    }
    if len(found) > 1:
        raise ConfigError(
            f"In the {SIDES[side]} play the policies {', '.join(found)}, so that a member there is "
            f"no single model; say which one is to be written: --policy {next(iter(found))}."
        )
    return next(iter(found))


def _table(members: Sequence[str], weights: Sequence[Mapping[str, float]]) -> str:
    """Return the weights as a table of Markdown: a column for all sides, or one for each."""
    heads = ["weight"] if len(weights) == 1 else [f"weight in the {side}" for side in SIDES]
    rows = [
        f"| `{name}` | {' | '.join(f'{own.get(name, 0):.6g}' for own in weights)} |"
        for name in members
    ]
    rule = "|---|" + "---|" * len(heads)
    return "".join(f"{row}\n" for row in (f"| member | {' | '.join(heads)} |", rule, *rows))
