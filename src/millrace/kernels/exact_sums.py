"""Kernels that add numbers exactly, take them back exactly, and round once.

A number is split at multiples of 32 bits into *limbs*, whole numbers below 2^32 with its sign:

    number  =  sum of  limb_j * 2^(32 j - BIAS)          BIAS is a multiple of 32, below all doubles

Limbs of many numbers are added one by one in 64 bits; sums of fewer than 2^31 numbers fit. So a
sum does not depend on the order of its terms, a difference undoes a sum, and partial sums of
panes, batches and shards add up to the same. Only what is shown is rounded: to the nearest
double, ties to even (the limbs as in Neal, "Fast exact summation using small and large
superaccumulators", 2015).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Floats, Ints

LIMB_BITS = 32
BIAS = 1_088
N_LIMBS = 68
ZERO_LIMB = BIAS // LIMB_BITS
"""The limb in which whole numbers begin."""
_MASK = (1 << 32) - 1


@njit(cache=True, nogil=True, inline="always")
def _three_limbs(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the place of the first limb of a double, given by its bits, and three limbs."""
    exponent = (word >> 52) & 0x7FF
    mantissa = word & ((1 << 52) - 1)
    if exponent == 0:
        exponent = 1
    else:
        mantissa |= 1 << 52
    position = exponent - 1075 + BIAS
    shift = position & 31
    low = (mantissa & _MASK) << shift  # below 2^63
    high = (mantissa >> 32) << shift  # below 2^52
    second = (low >> 32) + (high & _MASK)
    third = (high >> 32) + (second >> 32)
    if word < 0:
        return position >> 5, -(low & _MASK), -(second & _MASK), -third
    return position >> 5, low & _MASK, second & _MASK, third


@njit(cache=True, nogil=True)
def split_doubles(values: Floats, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Split finite doubles into limbs; return the row, place and value of each limb."""
    n_values = len(values)
    owners = np.empty(3 * n_values, np.int64)
    places = np.empty(3 * n_values, np.int64)
    limbs = np.empty(3 * n_values, np.int64)
    bits = values.view(np.int64)
    count = 0
    for at in range(n_values):
        place, first, second, third = _three_limbs(bits[at])
        for limb in (first, second, third):
            if limb:
                owners[count] = rows[at]
                places[count] = place
                limbs[count] = limb
                count += 1
            place += 1
    return owners[:count].copy(), places[:count].copy(), limbs[:count].copy()


@njit(cache=True, nogil=True)
def add_doubles(
    cells: Ints, rows: Ints, values: Floats, weights: Ints, usual: tuple[int, int, int]
) -> Bools:
    """Add the limbs of finite doubles, by weights, to cells of a table.

    `usual` are the place of the first limb that has a column, how many have one, and the first
    column. Says which doubles have other limbs, and are not added.
    """
    rare = np.zeros(len(values), np.bool_)
    bits = values.view(np.int64)
    first, count, column = usual
    for at in range(len(values)):
        place, low, middle, high = _three_limbs(bits[at])
        place -= first
        if low == 0 and middle == 0 and high == 0:
            continue
        if place < 0 or place + 2 >= count:
            rare[at] = True
            continue
        row, weight, to = rows[at], weights[at], column + place
        cells[row, to] += low * weight
        cells[row, to + 1] += middle * weight
        cells[row, to + 2] += high * weight
    return rare


@njit(cache=True, nogil=True)
def split_words(words: Ints, first: int, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Split whole numbers of one or two words of 64 bits, low word first, into limbs."""
    n_values, n_words = words.shape
    size = 2 * n_words * n_values
    owners = np.empty(size, np.int64)
    places = np.empty(size, np.int64)
    limbs = np.empty(size, np.int64)
    count = 0
    for at in range(n_values):
        for word in range(n_words):
            value = words[at, word]
            low = value & _MASK
            high = value >> 32  # the sign is in the highest limb
            if word < n_words - 1:
                high &= _MASK
            for place, limb in ((0, low), (1, high)):
                if limb:
                    owners[count] = rows[at]
                    places[count] = first + 2 * word + place
                    limbs[count] = limb
                    count += 1
    return owners[:count].copy(), places[:count].copy(), limbs[:count].copy()


@njit(cache=True, nogil=True)
def _magnitude(limbs, digits):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Carry limbs into digits of 32 bits of the absolute value; return whether it is negative."""
    n_limbs = len(limbs)
    carry = 0
    for at in range(n_limbs):
        total = limbs[at] + carry
        digits[at] = total & _MASK
        carry = total >> 32
    for at in range(n_limbs, len(digits)):
        digits[at] = carry & _MASK
        carry >>= 32
    if carry >= 0:
        return False
    carry = 1
    for at in range(len(digits)):
        total = (digits[at] ^ _MASK) + carry
        digits[at] = total & _MASK
        carry = total >> 32
    return True


@njit(cache=True, nogil=True)
def _nearest(digits, weight, sticky):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Round digits of 32 bits, the lowest of weight 2^weight, to the nearest double."""
    top = len(digits) - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0
    width = 0
    while digits[top] >> width:
        width += 1
    highest = 32 * top + width - 1  # place of the highest bit
    exponent = highest + weight
    lowest = max(exponent - 52, -1074)  # weight of the last bit that is kept
    drop = lowest - weight  # so many bits are cut off
    first, shift = max(drop, 0) >> 5, max(drop, 0) & 31
    kept = digits[first] >> shift if first <= top else 0
    for at in range(first + 1, top + 1):  # at most 53 bits in all
        kept |= digits[at] << (32 * (at - first) - shift)
    if drop < 0:
        kept <<= -drop
    elif drop > 0:
        half = (digits[(drop - 1) >> 5] >> ((drop - 1) & 31)) & 1 if drop - 1 <= highest else 0
        rest = sticky
        whole = (drop - 1) >> 5
        for at in range(min(whole, len(digits))):
            rest = rest or digits[at] != 0
        if whole < len(digits) and digits[whole] & ((1 << ((drop - 1) & 31)) - 1):
            rest = True
        if half and (rest or kept & 1):
            kept += 1
    return math.ldexp(float(kept), lowest)


@njit(cache=True, nogil=True, inline="always")
def _divide(digits, divisor):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Divide digits by a number below 2^31; return whether something is left."""
    remainder = 0
    for at in range(len(digits) - 1, -1, -1):
        value = (remainder << 32) | digits[at]
        digits[at] = value // divisor
        remainder = value % divisor
    return remainder != 0


@njit(cache=True, nogil=True)
def rounded_quotients(limbs: Ints, first: int, divisors: Ints, scale: int) -> Floats:
    """Divide sums, a row of limbs each of which the first is at `first`, and round once.

    They are divided by `divisors` and by 10 to the power of `scale`. A divisor of 0 gives 0.
    """
    n_rows, n_limbs = limbs.shape
    below = 4 + scale // 9  # digits behind the last limb, for what a division brings
    digits = np.zeros(n_limbs + 2 + below, np.int64)
    found = np.zeros(n_rows, np.float64)
    for row in range(n_rows):
        if divisors[row] == 0:
            continue
        digits[:below] = 0
        negative = _magnitude(limbs[row], digits[below:])
        sticky = divisors[row] != 1 and _divide(digits, divisors[row])
        tens = scale
        while tens > 0:
            sticky = _divide(digits, 10 ** min(tens, 9)) or sticky
            tens -= 9
        value = _nearest(digits, 32 * (first - below) - BIAS, sticky)
        found[row] = -value if negative else value
    return found


@njit(cache=True, nogil=True, inline="always")
def _halves(word):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the exponent of a double, given by its bits, and its mantissa in two parts."""
    exponent = (word >> 52) & 0x7FF
    mantissa = word & ((1 << 52) - 1)
    if exponent == 0:
        return 1, mantissa & _MASK, mantissa >> 32
    return exponent, mantissa & _MASK, (mantissa | 1 << 52) >> 32


@njit(cache=True, nogil=True)
def split_products(values: Floats, others: Floats, rows: Ints) -> tuple[Ints, Ints, Ints]:
    """Split the products of finite doubles into limbs; those have twice the bias."""
    n_values = len(values)
    owners = np.empty(5 * n_values, np.int64)
    places = np.empty(5 * n_values, np.int64)
    limbs = np.empty(5 * n_values, np.int64)
    bits, other_bits = values.view(np.int64), others.view(np.int64)
    digits = np.zeros(6, np.int64)
    count = 0
    for at in range(n_values):
        exponent, low, high = _halves(bits[at])
        other_exponent, other_low, other_high = _halves(other_bits[at])
        least = np.uint64(low) * np.uint64(other_low)
        cross = low * other_high + high * other_low  # below 2^54
        digits[0] = np.int64(least & np.uint64(_MASK))
        middle = np.int64(least >> np.uint64(32)) + (cross & _MASK)
        digits[1] = middle & _MASK
        upper = (middle >> 32) + (cross >> 32) + high * other_high
        digits[2] = upper & _MASK
        digits[3] = upper >> 32
        sign = -1 if (bits[at] < 0) != (other_bits[at] < 0) else 1
        position = exponent + other_exponent + 2 * (BIAS - 1075)
        place, shift, carry = position >> 5, position & 31, 0
        for digit in range(5):
            wide = (digits[digit] << shift) if digit < 4 else 0  # below 2^63
            limb = (wide & _MASK) | carry
            carry = wide >> 32
            if limb:
                owners[count] = rows[at]
                places[count] = place + digit
                limbs[count] = sign * limb
                count += 1
    return owners[:count].copy(), places[:count].copy(), limbs[:count].copy()


@njit(cache=True, nogil=True)
def variances(  # noqa: C901  one division of long numbers, as on paper
    sums: Ints, first: int, squares: Ints, first_square: int, counts: Ints, freedom: int
) -> Floats:
    """Return (n * sum of squares - square of sum) / (n * (n - freedom)), rounded once."""
    n_rows, n_sums = sums.shape
    n_squares = squares.shape[1]
    low = min(2 * first, first_square)
    size = max(2 * (first + n_sums + 2), first_square + n_squares + 3) - low + 2
    below = 6
    found = np.zeros(n_rows, np.float64)
    whole = np.zeros(n_sums + 2, np.int64)
    total = np.zeros(size, np.int64)
    digits = np.zeros(size + below, np.int64)
    for row in range(n_rows):
        n = counts[row]
        if n <= freedom:
            continue
        total[:] = 0
        for at in range(n_squares):  # limbs of the sum of squares are below 2^63 in all
            limb = squares[row, at]
            place = first_square + at - low
            total[place] += (limb & _MASK) * n
            total[place + 1] += (limb >> 32) * n
        carry = 0
        for at in range(size):
            value = total[at] + carry
            total[at] = value & _MASK
            carry = value >> 32
        _magnitude(sums[row], whole)
        for one in range(len(whole)):
            carry = 0
            if whole[one] == 0:
                continue
            for other in range(len(whole) + 1):
                place = 2 * first + one + other - low
                if place >= size:
                    break
                product = np.uint64(whole[one]) * np.uint64(
                    whole[other] if other < len(whole) else 0
                )
                value = total[place] - np.int64(product & np.uint64(_MASK)) + carry
                total[place] = value & _MASK
                carry = (value >> 32) - np.int64(product >> np.uint64(32))
            place = 2 * first + one + len(whole) + 1 - low
            while carry and place < size:
                value = total[place] + carry
                total[place] = value & _MASK
                carry = value >> 32
                place += 1
        digits[:below] = 0
        digits[below:] = total
        sticky = False
        for divisor in (n, n - freedom):
            sticky = _divide(digits, divisor) or sticky
        found[row] = _nearest(digits, 32 * (low - below) - 2 * BIAS, sticky)
    return found


@njit(cache=True, nogil=True)
def whole_words(limbs: Ints) -> tuple[Ints, Bools]:
    """Return sums of 4 limbs as two words of 64 bits, low word first, and which do not fit."""
    n_rows = len(limbs)
    words = np.zeros((n_rows, 2), np.int64)
    beyond = np.zeros(n_rows, np.bool_)
    digits = np.zeros(4, np.int64)
    for row in range(n_rows):
        carry = 0
        for at in range(4):
            total = limbs[row, at] + carry
            digits[at] = total & _MASK
            carry = total >> 32
        words[row, 0] = digits[0] | (digits[1] << 32)
        words[row, 1] = digits[2] | (digits[3] << 32)
        beyond[row] = carry != (-1 if digits[3] >> 31 else 0)
    return words, beyond
