"""Which finished games are kept, and which of them are trained on again."""
