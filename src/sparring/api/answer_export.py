"""The answer of a run as a folder."""

from __future__ import annotations

from pathlib import Path

from sparring.api.load import load_answer, load_run
from sparring.config.checks import LAST, POLICY
from sparring.core.refs import LEARNER, PUBLISHED
from sparring.engine.export import export, export_mixture
from sparring.play.players.mixture import MemberMixture
from sparring.run.events import METRICS, read_lines


def export_answer(
    run: Path,
    folder: Path,
    answer: str | None = None,
    *,
    checkpoint: int | None = None,
    dtype: str | None = None,
    adapter: bool = False,
    policy: str | None = None,
) -> tuple[int, str, tuple[str, ...]]:
    """Write who answers for a run; return the step, the mixture in words or "", and notes.

    Args:
        run: the run folder.
        folder: where to.
        answer: "policy", "average", "last" or a meta-solver; None: the policy, as one model folder.
        checkpoint: step of the checkpoint; None takes the newest.
        dtype: as for ``engine.export.export``.
        adapter: as for ``engine.export.export``.
        policy: which policy, where the run has several.

    Raises:
        SparringError: there is no such run or answer, or the folder cannot be written.
    """
    config, engine, step = load_run(run, checkpoint)
    asked = answer or POLICY
    who = load_answer(run, config, engine, step, asked)
    if isinstance(who, MemberMixture):
        export_mixture(
            engine,
            folder,
            who,
            step=step,
            answer=asked,
            dtype=dtype,
            adapter=adapter,
            policy=policy,
        )
        return step, str(who), who.notes
    member = LEARNER if asked == LAST else PUBLISHED
    export(
        engine,
        folder,
        step=step,
        dtype=dtype,
        adapter=adapter,
        policy=policy,
        member=member,
        figures=None if asked == LAST else _measured(run, step),
    )
    return step, "", ()


def _measured(run: Path, step: int) -> dict[str, float]:
    """Return the figures of skill that a run recorded at a step, of the weights it publishes."""
    kinds = ("nash_conv/", "exploitability/", "match/")
    lines = [line for line in read_lines(run / METRICS) if line["step"] == step]
    return {
        name: value
        for line in lines
        for name, value in line.items()
        if name.startswith(kinds) and isinstance(value, (int, float))
    }
