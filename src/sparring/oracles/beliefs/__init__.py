"""What a seat may believe about what is hidden: one file per game that oracle ``posterior`` judges."""
