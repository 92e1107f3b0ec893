"""The table of docs/policies.md on teams of two adapters of SmolLM2-135M."""

from __future__ import annotations

from sparring.report.reproduce.signalling import teams
from sparring.report.result_figures import Maker, Results

MADE: dict[str, Maker] = {"signalling-smol": teams, "signalling-smol source": Results.source}
SHOWN = {"By seed": teams}
