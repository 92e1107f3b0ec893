"""The functions of docs/api.md and the number of estimators in README.md, from the code."""

import inspect
from pathlib import Path

from measured import markdown

import sparring
from sparring.config.plugins import registry

ROOT = Path(__file__).resolve().parents[2]


def functions():
    """Return the public functions with their parameters and first lines."""
    lines = []
    for name in sparring.__all__:
        function = getattr(sparring, name)
        summary = inspect.getdoc(function).split("\n\n")[0].replace("\n", " ")
        parameters = [
            parameter.replace(annotation=parameter.empty, default=parameter.empty)
            for parameter in inspect.signature(function).parameters.values()
        ]
        lines.append((f"`{name}{inspect.Signature(parameters)}`", summary.replace("``", "`")))
    return markdown(("name", "what it does"), lines)


def example():
    """Return the first example."""
    text = (ROOT / "examples" / "first_run.py").read_text(encoding="utf-8")
    return f"```python\n{text.rstrip()}\n```"


def estimators():
    """Return how many advantage estimators there are."""
    return str(len(registry.built_in("credit")))


MARKERS = {"api functions": functions, "api example": example, "estimators": estimators}
