"""How fast a run with a thousand workers would be: docs/scale.md."""
