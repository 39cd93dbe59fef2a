"""Kernels that number equal hashes, and that add up by number.

Cost: about 15 ns a row to number a million hashes of which ten thousand differ.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bools, Hashes, Ints


@njit(cache=True, nogil=True)
def number_hashes(hashes: Hashes) -> tuple[Ints, Ints]:
    """Number the different hashes in the order in which they first occur.

    Returns the number of each hash, and where each number occurs first.
    """
    n_rows = len(hashes)
    size = 16
    while size < 2 * n_rows:
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.full(size, -1, np.int64)
    numbers = np.empty(n_rows, np.int64)
    firsts = np.empty(n_rows, np.int64)
    count = 0
    for row in range(n_rows):
        wanted = hashes[row]
        at = (wanted ^ (wanted >> np.uint64(32))) & mask
        while True:
            number = slots[at]
            if number < 0:
                slots[at] = count
                firsts[count] = row
                numbers[row] = count
                count += 1
                break
            if hashes[firsts[number]] == wanted:
                numbers[row] = number
                break
            at = (at + np.uint64(1)) & mask
    return numbers, firsts[:count].copy()


@njit(cache=True, nogil=True)
def pairs_of(ordered: Ints, first: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Pair each wanted number with all places that have it.

    Parameters
    ----------
    ordered
        Places, ordered by their number.
    first
        Where in `ordered` the places of each number begin; one entry more than numbers.
    wanted
        Numbers, or -1 for none.
    """
    total = 0
    for row in range(len(wanted)):
        number = wanted[row]
        if number >= 0:
            total += first[number + 1] - first[number]
    left = np.empty(total, np.int64)
    right = np.empty(total, np.int64)
    at = 0
    for row in range(len(wanted)):
        number = wanted[row]
        if number < 0:
            continue
        for place in range(first[number], first[number + 1]):
            left[at] = row
            right[at] = ordered[place]
            at += 1
    return left, right


@njit(cache=True, nogil=True)
def running_sums(groups: Ints, changes: Ints, base: Ints) -> Ints:
    """Add up changes within each group, on top of what each group begins with.

    Groups are in stretches: equal numbers stand beside each other. `changes` has a column for
    each sum, `base` a row for each group number.
    """
    n_rows, n_sums = changes.shape
    sums = np.empty((n_rows, n_sums), np.int64)
    for row in range(n_rows):
        fresh = row == 0 or groups[row] != groups[row - 1]
        for at in range(n_sums):
            before = base[groups[row], at] if fresh else sums[row - 1, at]
            sums[row, at] = before + changes[row, at]
    return sums


@njit(cache=True, nogil=True)
def add_by_number(numbers: Ints, values: Ints, n_numbers: int) -> Ints:
    """Add up the rows of `values`, which has a column for each sum, by number."""
    sums = np.zeros((n_numbers, values.shape[1]), np.int64)
    for row in range(len(numbers)):
        for at in range(values.shape[1]):
            sums[numbers[row], at] += values[row, at]
    return sums


@njit(cache=True, nogil=True)
def add_in_order(numbers: Ints, order: Ints, values: Ints, n_numbers: int) -> Ints:
    """Add up the rows of `values` by number, which are those of the rows in some order."""
    sums = np.zeros((n_numbers, values.shape[1]), np.int64)
    for place in range(len(order)):
        for at in range(values.shape[1]):
            sums[numbers[place], at] += values[order[place], at]
    return sums


@njit(cache=True, nogil=True)
def net_by_instant(numbers: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Number stretches of equal (number, time), which are ordered; say where each begins."""
    stretches = np.empty(len(numbers), np.int64)
    firsts = np.empty(len(numbers), np.int64)
    count = 0
    for row in range(len(numbers)):
        if row == 0 or numbers[row] != numbers[row - 1] or times[row] != times[row - 1]:
            firsts[count] = row
            count += 1
        stretches[row] = count - 1
    return stretches, firsts[:count].copy()


@njit(cache=True, nogil=True)
def firsts_of(numbers: Ints) -> Bools:
    """Say for each row whether it is the first of a stretch of equal numbers."""
    first = np.empty(len(numbers), np.bool_)
    for row in range(len(numbers)):
        first[row] = row == 0 or numbers[row] != numbers[row - 1]
    return first


@njit(cache=True, nogil=True)
def ascend(numbers: Ints, times: Ints) -> bool:
    """Say whether each row is before the next, by its number and then by time."""
    for row in range(1, len(numbers)):
        if numbers[row] < numbers[row - 1]:
            return False
        if numbers[row] == numbers[row - 1] and times[row] <= times[row - 1]:
            return False
    return True


@njit(cache=True, nogil=True)
def order_by(numbers: Ints, times: Ints, n_numbers: int) -> Ints:  # noqa: C901  one sort
    """Return the order of rows by their number and then by time; equal ones stay as they are.

    Numbers are counted, and times sorted within each: mostly they are in order already.
    """
    begins = np.zeros(n_numbers + 1, np.int64)
    for row in range(len(numbers)):
        begins[numbers[row] + 1] += 1
    for number in range(n_numbers):
        begins[number + 1] += begins[number]
    order = np.empty(len(numbers), np.int64)
    next_place = begins[:-1].copy()
    for row in range(len(numbers)):
        number = numbers[row]
        order[next_place[number]] = row
        next_place[number] += 1
    for number in range(n_numbers):
        first, stop = begins[number], begins[number + 1]
        ascending = True
        for place in range(first + 1, stop):
            if times[order[place]] < times[order[place - 1]]:
                ascending = False
                break
        if ascending:
            continue
        if stop - first > 32:
            mine = order[first:stop].copy()
            order[first:stop] = mine[np.argsort(times[mine], kind="mergesort")]
            continue
        for place in range(first + 1, stop):
            row = order[place]
            at = place
            while at > first and times[order[at - 1]] > times[row]:
                order[at] = order[at - 1]
                at -= 1
            order[at] = row
    return order


@njit(cache=True, nogil=True)
def places_of(begins: Ints, times: Ints, numbers: Ints, wanted: Ints) -> Ints:
    """Find instants among those of a number, which are ascending; the instant is there.

    The instants of number n are `times[begins[n]:begins[n + 1]]`.
    """
    places = np.empty(len(numbers), np.int64)
    for row in range(len(numbers)):
        low, high = begins[numbers[row]], begins[numbers[row] + 1] - 1
        while low < high:
            middle = (low + high) // 2
            if times[middle] < wanted[row]:
                low = middle + 1
            else:
                high = middle
        places[row] = low
    return places


@njit(cache=True, nogil=True)
def add_into(cells: Ints, rows: Ints, columns: Ints, values: Ints) -> None:
    """Add values to cells of a table."""
    for at in range(len(values)):
        cells[rows[at], columns[at]] += values[at]


@njit(cache=True, nogil=True)
def add_to_cells(rows: Ints, columns: Ints, values: Ints, n_rows: int, n_columns: int) -> Ints:
    """Add up values by row and column of a table."""
    cells = np.zeros((n_rows, n_columns), np.int64)
    add_into(cells, rows, columns, values)
    return cells
