"""Self-play with tables: one loop in which every algorithm is a recipe of a few lines."""
