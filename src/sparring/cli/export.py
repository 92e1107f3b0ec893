"""sparring export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparring.engine.load import load_run
from sparring.errors import RunError


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    folder: Annotated[Path, typer.Argument(help="Where to write the model; must not hold anything yet.")],
    checkpoint: Annotated[int | None, typer.Option(help="Step of the checkpoint; default the newest.")] = None,
) -> None:
    """Write a run's policy as a folder that AutoModelForCausalLM.from_pretrained loads."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder; name another one.")
    _, engine, step = load_run(run, checkpoint)
    engine.export(folder)
    print(f"Wrote the policy of step {step} to {folder}.")
