"""Mathematics: game trees, linear programs, returns, statistics."""
