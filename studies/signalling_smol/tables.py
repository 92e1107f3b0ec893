"""The table of docs/policies.md on teams of two adapters of SmolLM2-135M."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results
from studies.signalling.tables import teams

MARKERS: dict[str, Maker] = {"signalling-smol": teams, "signalling-smol source": Results.source}
SECTIONS = {"By seed": teams}
