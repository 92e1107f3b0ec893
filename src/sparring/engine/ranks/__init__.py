"""Further learners of a run."""
