"""Bridges: environments of other libraries, and rows of a dataset, as environments of Sparring."""
