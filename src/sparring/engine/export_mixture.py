"""A mixture of a run's members as a folder: a model folder for each, and the weights."""

from __future__ import annotations

from pathlib import Path

from sparring.engine.export import CARD, chosen, export, let_read, seat_command
from sparring.engine.local import LocalEngine
from sparring.players.exported_files import ExportedMixture, write_exported
from sparring.players.members import MemberMixture

MIXTURE = """# {title}

Before each play one of these members is drawn for each team, by its weight. Each is a model folder
with a model card of its own; `sparring.json` has the weights.

| member | weight |
|---|---|
{rows}
With Sparring it is one player:

```
{seat}
```
"""


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

    Args:
        engine: of the run.
        folder: where to; each member is a folder in it.
        mixture: of the run's members.
        step: of the checkpoint.
        answer: the run's answer that the mixture is, such as "nash".
        dtype: as for ``export``.
        adapter: as for ``export``.
        policy: as for ``export``.

    Raises:
        SparringError: as for ``export``.
    """
    own, names = chosen(engine, policy), {str(who): who for who in mixture.members}
    for name, who in names.items():
        export(
            engine,
            folder / name,
            step=step,
            dtype=dtype,
            adapter=adapter,
            policy=own.name,
            member=who,
        )
    weights = {name: mixture.members[who] for name, who in names.items()}
    rows = "".join(f"| `{name}` | {weight:.6g} |\n" for name, weight in weights.items())
    (folder / CARD).write_text(
        MIXTURE.format(
            title=f"{engine.config.name}, step {step}: mixture of members ({answer})",
            rows=rows,
            seat=seat_command(engine, own, folder.name),
        ),
        encoding="utf-8",
    )
    write_exported(folder, ExportedMixture(answer=answer, step=step, members=weights))
    let_read(folder)
