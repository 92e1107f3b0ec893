"""Code that several studies use: their interface, results files, tables, and measurements."""
