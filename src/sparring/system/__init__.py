"""What the machine offers: files whole or absent, worker processes, terminal, collector."""
