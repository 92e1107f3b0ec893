"""Which starts are played next."""
