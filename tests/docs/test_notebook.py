"""examples/first_agent.ipynb: it runs from its first cell to its last, at its smallest size."""

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.loading import ROOT

NOTEBOOK = ROOT / "examples" / "first_agent.ipynb"


@pytest.mark.slow
@pytest.mark.always
def test_the_notebook_trains_measures_and_replays(tmp_path):
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert "STEPS = 200\n" in first.source and not any(cell.get("outputs") for cell in notebook.cells)
    first.source = first.source.replace("STEPS = 200\n", "STEPS = 10\n")
    client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output.get("text", "") for output in outputs)
    assert "NashConv: " in printed and "as second against random mean return" in printed
    assert any("image/svg+xml" in output.get("data", {}) for output in outputs)
    assert any("<th>advantage</th>" in output.get("data", {}).get("text/html", "") for output in outputs)
