"""Bodies with a few things wrong."""


def mutated(rng, body):
    """The body with a few things wrong."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        what = rng.randrange(5)
        at = rng.randrange(len(data) + 1)
        if what == 0 and data:
            data[at % len(data)] ^= 1 << rng.randrange(8)
        elif what == 1:
            del data[at : at + rng.randint(1, 40)]
        elif what == 2:
            data[at:at] = rng.randbytes(rng.randint(1, 40))
        elif what == 3 and data:
            data[at % len(data)] = rng.choice((0, 1, 127, 128, 255))
        else:
            data = data[:at]
    return bytes(data)
