"""From the literature: mechanisms of the papers that we compare with, kept as they were published.

PrivKV and the later rounds of PrivKVM (`privkv`, `broadcast`), PrivKVM* (`privkvm_star`,
`boundary_bits`), and the baselines that perturb keys and values apart (`apart`, with `harmony` for the
sign). They can be collected, simulated and reproduced like any other. Nothing outside this room, its
counterparts of the same name in other packages and the `registry` is shaped by them.
"""
