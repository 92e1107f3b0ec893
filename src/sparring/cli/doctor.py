"""sparring doctor"""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sparring.api.doctor import examine


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False) -> None:
    """Check this machine: versions, threads, and a two-second round of training."""
    findings = examine()
    if as_json:
        print(json.dumps(findings, sort_keys=True))
    else:
        for name, value in findings.items():
            print(f"{name:>20}  {value}")
    if not findings["healthy"]:
        raise typer.Exit(1)
