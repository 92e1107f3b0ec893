"""A suite with other opponents or oracles than its file names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparring.errors import ConfigError
from sparring.measure.opponents import AgentSpec
from sparring.measure.oracle_choice import OracleSpec, hindrance
from sparring.measure.suite import OpponentEntry, OracleEntry, Suite, SuiteRow


def with_opponents(
    suite: Suite, extra: Mapping[str, AgentSpec], games: int | None, style_of: Mapping[str, str]
) -> Suite:
    """Return the suite as it is to be played.

    Args:
        suite: as written.
        extra: label -> agent; every game of a match is also played against each of these, outside
            the totals.
        games: games per seat of every row, or None for the rows' own.
        style_of: wording style by row name; a style in the row's options wins.
    """
    rows: list[SuiteRow] = []
    seen: set[tuple[str, str]] = set()
    for row in suite.rows:
        options = {"style": style_of[row.name], **row.options}
        changed = row.model_copy(
            update={"options": options, "games_per_seat": games or row.games_per_seat}
        )
        rows.append(changed)
        game = (row.game, str(sorted(row.options.items())))
        if row.kind == "match" and game not in seen:
            seen.add(game)
            for label, spec in extra.items():
                entry = OpponentEntry(name=spec.name, options=dict(spec.options))
                name = _fresh(
                    f"{row.name.rsplit('-', 1)[0]}-{label}",
                    f"{row.name}-{label}",
                    [*suite.rows, *rows],
                )
                rows.append(
                    changed.model_copy(update={"name": name, "opponent": entry, "in_totals": False})
                )
    return suite.model_copy(update={"rows": rows})


def _fresh(name: str, longer: str, rows: Sequence[SuiteRow]) -> str:
    """Return ``name`` unless a row has it."""
    return longer if any(row.name == name for row in rows) else name


def with_oracle(suite: Suite, spec: OracleSpec) -> tuple[Suite, dict[str, str]]:
    """Return the suite with this oracle in every row that has none.

    By the row's name comes why it can judge nothing there.

    Raises:
        ConfigError: it can judge none of these rows, or there are none.
    """
    oracle, entry = spec.make(), OracleEntry(name=spec.name, options=dict(spec.options))
    bare = [row for row in suite.rows if row.kind != "exact" and row.oracle is None]
    if not bare:
        raise ConfigError(
            f"--oracle {spec.name} has nothing to judge: all rows that are played have an oracle "
            "of their own; leave --oracle out."
        )
    reasons = {row.name: hindrance(oracle, row.make_game()) for row in bare}
    if all(reasons.values()):
        why = "; ".join(
            {row.game: f"{row.game}: {reasons[row.name].rstrip('.')}" for row in bare}.values()
        )
        raise ConfigError(
            f"--oracle {spec.name} can judge none of the rows that have no oracle: {why}."
        )
    rows = [
        row.model_copy(update={"oracle": entry}) if reasons.get(row.name) == "" else row
        for row in suite.rows
    ]
    return suite.model_copy(update={"rows": rows}), {
        name: reason for name, reason in reasons.items() if reason
    }


def without_oracles(suite: Suite) -> Suite:
    """Return the suite with nobody to judge the turns."""
    return suite.model_copy(
        update={"rows": [row.model_copy(update={"oracle": None}) for row in suite.rows]}
    )
