"""Reports of one symbol: a signed key (`response`), or what an encoder makes of a record (`keys_only`).

The symbol of an encoder goes through one of the `oracles`, which may tell it as bits or behind a hash.
"""
