"""Members, their payoffs, matchmakers and meta-solvers."""
