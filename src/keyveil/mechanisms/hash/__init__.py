"""Reports of a public hash and one of its buckets, for a whole record at once."""
