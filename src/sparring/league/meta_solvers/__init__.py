"""Meta-solvers, one per file: the mixture of members to which the next member responds."""
