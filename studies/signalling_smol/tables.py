"""The table of docs/policies.md on teams of two adapters of SmolLM2-135M."""

from __future__ import annotations

from studies.common.result_figures import Maker, Results
from studies.signalling.tables import table_of_teams

MARKERS: dict[str, Maker] = {
    "signalling-smol": table_of_teams,
    "signalling-smol source": Results.source,
}
SECTIONS = {"By seed": table_of_teams}
