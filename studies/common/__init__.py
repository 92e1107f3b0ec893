"""Code that several studies use: the interface of a study, results files, tables, and measurements."""
