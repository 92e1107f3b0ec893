"""sparring export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from sparring.api.load import export_answer
from sparring.cli.text import print_stderr, say
from sparring.config.checks import POLICY
from sparring.core.errors import RunError


def export(
    run: Annotated[Path, typer.Argument(help="Run folder.")],
    folder: Annotated[
        Path, typer.Argument(help="Where to write the model; must be empty or not exist.")
    ],
    checkpoint: Annotated[
        int | None, typer.Option(help="Step of the checkpoint; default the newest.")
    ] = None,
    dtype: Annotated[
        Literal["float32", "bfloat16", "float16"] | None,
        typer.Option(help="Type of the weights; default as trained."),
    ] = None,
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Write only the adapters, not merged into the model.")
    ] = False,
    policy: Annotated[
        str | None, typer.Option(help="The policy to write, if the run has several.")
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            help="What is written: policy, average, last, or the mixture of the run's snapshots by "
            "a meta-solver such as nash; default policy."
        ),
    ] = None,
) -> None:
    """Write a run's policy as a folder that AutoModelForCausalLM.from_pretrained loads.

    The folder of a mixture holds one such folder per member, and the weights.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not an empty folder; name another folder.")
    step, mixture, notes = export_answer(
        run, folder, answer, checkpoint=checkpoint, dtype=dtype, adapter=adapter, policy=policy
    )
    for note in notes:
        print_stderr(note)
    if mixture:
        say(
            f"Wrote the mixture of step {step} ({mixture}) to {folder}; it is one player: "
            f"'exported folder={folder}'."
        )
        return
    description = "policy" if answer in (None, POLICY) else f"answer {answer!r}"
    say(
        f"Wrote the {description} of step {step} to {folder}; its README.md shows the prompt "
        "it was trained on, and how to load it."
    )
