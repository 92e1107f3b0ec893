"""What studies share: their frame, results files, tables, and measures of several."""
