"""Which mix of a population's members is answered next, one solver per file."""
