"""Reports of a number on a grid for every key: whole distributions of values."""
