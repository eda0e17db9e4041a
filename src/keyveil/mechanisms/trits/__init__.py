"""Reports of one trit a key: absent, + or -. `unary` is the shape, the others calibrate it."""
