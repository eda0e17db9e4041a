"""Reports of an index in clear and what is said of its key: a trit (`indexed`) or a boundary (`boundary`)."""
