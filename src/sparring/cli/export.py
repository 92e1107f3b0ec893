"""sparring export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sparring.cli.text import say
from sparring.engine.export import export as write
from sparring.errors import RunError
from sparring.experiments.load import load_run


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    folder: Annotated[
        Path, typer.Argument(help="Where to write the model; must not hold anything yet.")
    ],
    checkpoint: Annotated[
        int | None, typer.Option(help="Step of the checkpoint; default the newest.")
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(help="Of the weights; default as trained."),
    ] = None,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Write the adapters alone, not merged into the model.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="Which policy, where the run has several.")
    ] = None,
) -> None:
    """Write a run's policy as a folder that AutoModelForCausalLM.from_pretrained loads."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder; name another one.")
    _, engine, step = load_run(run, checkpoint)
    write(engine, folder, step=step, dtype=dtype, adapter=adapter, policy=policy)
    say(
        f"Wrote the policy of step {step} to {folder}; its README.md shows the prompt it was "
        "trained on, and how to load it."
    )
