"""Compiled loops of counting; imported by `bits`, `count` and `hashing` where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

Array = Any

# --- sums of bits, column by column ---

_LANES, _GROUP, _LEVELS = 4, 16, 4
# What four levels of four planes hold.
_MOST = 16**_LEVELS - _GROUP
# Rows longer than this are read once in order before they are added: sixteen short streams side by
# side are beyond a core's prefetcher, one long stream is not.
_STREAMED, _AHEAD = 128, 64


@intrinsic
def _add_group(
    typing: Any, rows: Any, starts: Any, first: Any, byte: Any, sums: Any, base: Any, width: Any
) -> Any:
    """Add 256 bits of sixteen rows to sums in binary: four planes, then the carry, then two marks.

    `byte` is where the bits begin in a row; planes begin at word `base` and lie `width` words apart. The
    marks collect bits that are set together with the bit above them, and bits that are set at all.
    """
    vector, word = ir.VectorType(ir.IntType(64), _LANES), ir.IntType(64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = {
            at: context.make_array(signature.args[at])(context, builder, args[at]).data for at in (0, 1, 4)
        }
        _, _, first, byte, _, base, width = args
        raw = builder.bitcast(data[0], ir.IntType(8).as_pointer())

        def row(number: int) -> Any:
            start = builder.load(builder.gep(data[1], [builder.add(first, word(number))]))
            place = builder.gep(raw, [builder.add(start, byte)])
            return builder.load(builder.bitcast(place, vector.as_pointer()), align=1)

        def plane(number: int) -> Any:
            inside = builder.add(builder.udiv(byte, word(8)), builder.mul(width, word(number)))
            place = builder.add(base, inside)
            return builder.bitcast(builder.gep(data[4], [place]), vector.as_pointer())

        def add(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
            differ = builder.xor(a, b)
            return builder.xor(differ, c), builder.or_(builder.and_(a, b), builder.and_(differ, c))

        *held, _, doubled, seen = (builder.load(plane(number), align=8) for number in range(7))
        waiting: list[list[Any]] = [[] for _ in range(5)]
        for number in range(_GROUP):
            bits = row(number)
            above = builder.lshr(bits, ir.Constant(vector, [1] * _LANES))
            doubled, seen = builder.or_(doubled, builder.and_(bits, above)), builder.or_(seen, bits)
            waiting[0].append(bits)
            for level in range(4):
                if len(waiting[level]) == 2:
                    held[level], carry = add(held[level], *waiting[level])
                    waiting[level] = []
                    waiting[level + 1].append(carry)
        for number, bits in enumerate((*held, *waiting[4], doubled, seen)):
            builder.store(bits, plane(number), align=8)
        return context.get_dummy_value()

    return types.void(rows, starts, first, byte, sums, base, width), generate


@intrinsic
def _word_at(typing: Any, rows: Any, byte: Any) -> Any:
    """Eight bytes of a buffer as a word, from any place."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        place = builder.gep(data, [args[1]])
        return builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(rows, byte), generate


@njit(cache=True, nogil=True)
def count_bits(rows: Array, starts: Array, doubled: Array, spare: Array) -> Any:
    """Column sums of the good rows, and a mark for each bad one; see `bits.count_bits`.

    Bytes up to `8 * doubled.size` behind each start are read. The last result only keeps the compiler
    from leaving out a read whose purpose is to fetch.
    """
    width = doubled.size
    counts = np.zeros(64 * width, dtype=np.int64)
    bad = np.zeros(starts.size, dtype=np.bool_)
    sums = np.zeros(_LEVELS * 7 * width, dtype=np.uint64)
    carries = np.zeros(_LEVELS * _GROUP * width, dtype=np.uint64)
    places = np.arange(_LEVELS * _GROUP) * (8 * width)
    filled = np.zeros(_LEVELS, dtype=np.int64)
    whole = starts.size // _GROUP * _GROUP
    read = np.uint64(0)
    for first in range(0, whole, _GROUP):
        if 8 * width > _STREAMED and first % _AHEAD == 0:
            for row in range(first, min(first + _AHEAD, whole)):
                read |= _glance(rows, starts[row], width)
        for byte in range(0, 8 * width, 8 * _LANES):
            _add_group(rows, starts, first, byte, sums, 0, width)
        for level in range(1, _LEVELS):
            kept = (_GROUP * level + filled[level]) * width
            _keep_carry(sums, 7 * (level - 1) * width, carries, kept, width)
            filled[level] += 1
            if filled[level] < _GROUP:
                break
            filled[level] = 0
            for byte in range(0, 8 * width, 8 * _LANES):
                _add_group(carries, places, _GROUP * level, byte, sums, 7 * level * width, width)
        if (first + _GROUP) % _MOST == 0:
            _flush(sums, carries, filled, counts, width)
    _flush(sums, carries, filled, counts, width)
    for row in range(whole, starts.size):
        _add_row(rows, starts[row], width, counts, 1)
    marked = np.uint64(0)
    for place in range(width):
        marked |= sums[5 * width + place] & doubled[place] | sums[6 * width + place] & spare[place]
    for row in range(0 if marked else whole, starts.size):
        if _is_bad(rows, starts[row], doubled, spare):
            bad[row] = True
            _add_row(rows, starts[row], width, counts, -1)
    return counts, bad, read


@njit(cache=True, nogil=True)
def _glance(rows: Array, start: int, width: int) -> Any:
    """Read a row in order."""
    seen = np.uint64(0)
    for place in range(width):
        seen |= _word_at(rows, start + 8 * place)
    return seen


@njit(cache=True, nogil=True)
def _is_bad(rows: Array, start: int, doubled: Array, spare: Array) -> bool:
    wrong = np.uint64(0)
    for place in range(doubled.size):
        word = _word_at(rows, start + 8 * place)
        wrong |= word & (word >> np.uint64(1)) & doubled[place] | word & spare[place]
    return wrong != 0


@njit(cache=True, nogil=True)
def _add_row(rows: Array, start: int, width: int, counts: Array, times: int) -> None:
    for place in range(width):
        _add_word(_word_at(rows, start + 8 * place), counts[64 * place : 64 * place + 64], times)


@njit(cache=True, nogil=True)
def _add_word(word: Any, counts: Array, times: int) -> None:
    for bit in range(64):
        counts[bit] += np.int64(word >> np.uint64(bit) & np.uint64(1)) * times


@njit(cache=True, nogil=True)
def _keep_carry(sums: Array, base: int, carries: Array, place: int, width: int) -> None:
    for word in range(width):
        carries[place + word] = sums[base + 4 * width + word]


@njit(cache=True, nogil=True)
def _flush(sums: Array, carries: Array, filled: Array, counts: Array, width: int) -> None:
    """Move what the planes hold into the counts; marks stay."""
    weight = 1
    for level in range(_LEVELS):
        for number in range(filled[level]):
            base = (_GROUP * level + number) * width
            for place in range(width):
                _add_word(carries[base + place], counts[64 * place : 64 * place + 64], weight)
        filled[level] = 0
        for number in range(4):
            base = (7 * level + number) * width
            for place in range(width):
                _add_word(sums[base + place], counts[64 * place : 64 * place + 64], weight << number)
                sums[base + place] = 0
        weight *= _GROUP


# --- numbers ---


@njit(cache=True, nogil=True)
def count_symbols(rows: Array, starts: Array, n_bytes: int, size: int) -> Any:
    """How often each number below `size` is reported; a mark for each that is none."""
    counts = np.zeros(size, dtype=np.int64)
    bad = np.zeros(starts.size, dtype=np.bool_)
    for row in range(starts.size):
        start, symbol = starts[row], np.uint64(0)
        for byte in range(n_bytes):
            symbol |= np.uint64(rows[start + byte]) << np.uint64(8 * byte)
        if symbol < np.uint64(size):
            counts[np.int64(symbol)] += 1
        else:
            bad[row] = True
    return counts, bad


@njit(cache=True, nogil=True)
def count_numbers(rows: Array, starts: Array, n_bytes: int, length: int, bits: int, size: int) -> Any:
    """How often each number below `size` is reported at each of `length` places of `bits` bits."""
    counts = np.zeros(length * size, dtype=np.int64)
    bad = np.zeros(starts.size, dtype=np.bool_)
    numbers = np.zeros(length, dtype=np.int64)
    for row in range(starts.size):
        place, held, left = starts[row], np.uint64(0), 0
        wrong = False
        for number in range(length):
            while left < bits:
                held |= np.uint64(rows[place]) << np.uint64(left)
                place, left = place + 1, left + 8
            value = np.int64(held & ((np.uint64(1) << np.uint64(bits)) - np.uint64(1)))
            held, left = held >> np.uint64(bits), left - bits
            wrong |= value >= size
            numbers[number] = value
        if wrong or held:
            bad[row] = True
            continue
        for number in range(length):
            counts[number * size + numbers[number]] += 1
    return counts, bad


# --- the public hash ---

# Keys at once: their sums stay in a core's first cache.
_KEYS = 1024
# What 32 bits hold of reports of one cohort and those before it.
_MOST_HELD = (1 << 32) - 1
# The number of bins that nearly all dithers have.
_USUAL_BINS, _USUAL_WIDTH = 16, np.uint64(16)


@njit(cache=True, nogil=True)
def mix(x: Any) -> Any:
    """The finaliser of splitmix64, as in `mechanisms.oracles`."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(cache=True, nogil=True)
def bins_of(data: Array, starts: Array, shift: Any) -> Any:
    """The leading bits of the dither of the id at each start."""
    found = np.empty(starts.size, dtype=np.int64)
    for place in range(starts.size):
        low, high = _word_at(data, starts[place]), _word_at(data, starts[place] + 8)
        found[place] = mix(mix(low + np.uint64(1)) ^ (high + np.uint64(1))) >> shift
    return found


@njit(cache=True, nogil=True)
def bucket_of(seed: Any, symbol: Any, buckets: Any) -> Any:
    """`mechanisms.oracles.bucket_of`, the cohort mixed already."""
    return ((mix(seed ^ (symbol + np.uint64(1))) >> np.uint64(32)) * buckets) >> np.uint64(32)


@njit(cache=True, nogil=True)
def hash_symbols(seed: Any, first: int, count: int, buckets: Any, hashed: Array) -> None:
    """The buckets of consecutive symbols; a loop of its own, so that it runs in vectors."""
    for place in range(count):
        hashed[place] = bucket_of(seed, np.uint64(first) + np.uint64(place), buckets)


@njit(cache=True, nogil=True)
def sum_supports(seeds: Array, ends: Array, cells: Array, times: Array, n_symbols: int, buckets: int) -> Any:
    """Supports of symbols 0, 1, ...: cohort i names bucket cells[j] times[j] times, j from ends[i - 1]."""
    total = np.zeros(n_symbols, dtype=np.int64)
    table = np.zeros(buckets, dtype=np.int64)
    hashed = np.zeros(_KEYS, dtype=np.uint32)
    many = np.uint64(buckets)
    for first in range(0, n_symbols, _KEYS):
        last, start = min(n_symbols, first + _KEYS), 0
        part = total[first:last]
        for cohort in range(seeds.size):
            for cell in range(start, ends[cohort]):
                table[cells[cell]] = times[cell]
            hash_symbols(seeds[cohort], first, last - first, many, hashed)
            for place in range(last - first):
                part[place] += table[hashed[place]]
            for cell in range(start, ends[cohort]):
                table[cells[cell]] = 0
            start = ends[cohort]
    return total


@njit(cache=True, nogil=True)
def sum_tied_supports(
    seeds: Array, ends: Array, cells: Array, times: Array, n_keys: int, buckets: int, tie: int, tie_words: int
) -> Any:
    """Supports of (0, +), (0, -), (1, +), ... where some keys' signs share a bucket, or never do."""
    total = np.zeros(2 * n_keys, dtype=np.int64)
    table = np.zeros(buckets, dtype=np.int64)
    many, few = np.uint64(buckets), np.uint64(buckets - 1)
    start = 0
    for cohort in range(seeds.size):
        for cell in range(start, ends[cohort]):
            table[cells[cell]] = times[cell]
        seed = seeds[cohort]
        for key in range(n_keys):
            up = bucket_of(seed, np.uint64(2 * key), many)
            down = bucket_of(seed, np.uint64(2 * key + 1), many)
            if np.int64(bucket_of(seed, ~np.uint64(key), np.uint64(tie_words))) < abs(tie):
                apart = up + np.uint64(1) + bucket_of(seed, np.uint64(2 * key + 1), few)
                down = up if tie > 0 else apart % many
            total[2 * key] += table[np.int64(up)]
            total[2 * key + 1] += table[np.int64(down)]
        for cell in range(start, ends[cohort]):
            table[cells[cell]] = 0
        start = ends[cohort]
    return total


@intrinsic
def _add_bins(typing: Any, part: Any, here: Any, table: Any, there: Any) -> Any:
    """Sixteen 32-bit counts of a table, from one place on, added to those of a part from another place on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sixteen = ir.VectorType(ir.IntType(32), _USUAL_BINS).as_pointer()

        def row(array: int, place: Any) -> Any:
            data = context.make_array(signature.args[array])(context, builder, args[array]).data
            return builder.bitcast(builder.gep(data, [place]), sixteen)

        own = row(0, args[1])
        added = builder.add(builder.load(own, align=4), builder.load(row(2, args[3]), align=4))
        builder.store(added, own, align=4)
        return context.get_dummy_value()

    return types.void(part, here, table, there), generate


@njit(cache=True, nogil=True)
def sum_supports_apart(
    seeds: Array,
    ends: Array,
    cells: Array,
    times: Array,
    n_symbols: int,
    buckets: int,
    tie: int,
    tie_words: int,
    bins: int,
) -> Any:
    """The same apart by bins: `cells` are buckets times `bins` and a bin; symbols outside, bins inside.

    Sums of a block are 32 bits wide, as many as fill a core's first cache, and moved before they overflow.
    """
    total = np.zeros(n_symbols * bins, dtype=np.int64)
    table = np.zeros(buckets * bins, dtype=np.uint32)
    keys = max(_KEYS // bins, 1) * 4
    part = np.zeros(keys * bins, dtype=np.uint32)
    hashed = np.zeros(keys, dtype=np.uint32)
    many = np.uint64(buckets)
    for first in range(0, n_symbols, keys):
        last, start, held = min(n_symbols, first + keys), 0, 0
        for cohort in range(seeds.size):
            counted = 0
            for cell in range(start, ends[cohort]):
                table[cells[cell]] = times[cell]
                counted += times[cell]
            if held + counted > _MOST_HELD:
                _move(part, total, first * bins, (last - first) * bins)
                held = 0
            held += counted
            if tie:
                _hash_tied(seeds[cohort], first, last - first, buckets, tie, tie_words, hashed)
            else:
                hash_symbols(seeds[cohort], first, last - first, many, hashed)
            if bins == _USUAL_BINS:
                _add_usual(part, table, hashed, last - first)
            else:
                for place in range(last - first):
                    here, there = place * bins, np.int64(hashed[place]) * bins
                    for number in range(bins):
                        part[here + number] += table[there + number]
            for cell in range(start, ends[cohort]):
                table[cells[cell]] = 0
            start = ends[cohort]
        _move(part, total, first * bins, (last - first) * bins)
    return total


@njit(cache=True, nogil=True)
def _add_usual(part: Array, table: Array, hashed: Array, count: int) -> None:
    """The counts of every key's bucket, sixteen bins at once."""
    for place in range(count):
        _add_bins(part, np.uint64(place) * _USUAL_WIDTH, table, np.uint64(hashed[place]) * _USUAL_WIDTH)


@njit(cache=True, nogil=True)
def _move(part: Array, total: Array, first: int, count: int) -> None:
    for place in range(count):
        total[first + place] += np.int64(part[place])
        part[place] = 0


@njit(cache=True, nogil=True)
def _hash_tied(
    seed: Any, first: int, count: int, buckets: int, tie: int, tie_words: int, hashed: Array
) -> None:
    """The buckets of consecutive signed keys where some keys' signs share one, or never do."""
    many, few = np.uint64(buckets), np.uint64(buckets - 1)
    for place in range(0, count, 2):
        key = (first + place) >> 1
        up = bucket_of(seed, np.uint64(2 * key), many)
        down = bucket_of(seed, np.uint64(2 * key + 1), many)
        if np.int64(bucket_of(seed, ~np.uint64(key), np.uint64(tie_words))) < abs(tie):
            apart = up + np.uint64(1) + bucket_of(seed, np.uint64(2 * key + 1), few)
            down = up if tie > 0 else apart % many
        hashed[place], hashed[place + 1] = up, down


# --- one head of a tally of prefixes ---


@njit(cache=True, nogil=True)
def tail_counts(flat: Array, places: Array, offsets: Array, signs: Array, n_tails: int) -> Any:
    """Supports of all tails: sums at their places, with the head's signs, and a Walsh-Hadamard transform."""
    counts = np.zeros(n_tails, dtype=np.int64)
    n_cohorts, n_buckets = flat.shape
    for cohort in range(n_cohorts):
        offset = offsets[cohort]
        for across in range(n_buckets):
            counts[places[cohort, across]] += flat[cohort, across] * signs[across & offset]
    half = 1
    while half < n_tails:
        for start in range(0, n_tails, 2 * half):
            for place in range(start, start + half):
                first, second = counts[place], counts[place + half]
                counts[place], counts[place + half] = first + second, first - second
        half *= 2
    return counts // n_buckets
