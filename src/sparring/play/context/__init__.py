"""Context strategies, one per file: what a seat sees of its past, and so what it is trained on."""
