"""How the games of a group come about."""
