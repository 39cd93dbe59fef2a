"""Aho-Corasick: which of many needles stand in each text, in one pass over its bytes.

The needles form a tree of states, numbered level by level, so the children of a state stand side
by side. A state's failure link leads to the longest proper suffix of its text that is a state too
(Aho and Corasick, CACM 18(6), 1975). For the first `n_dense` states, where a scan spends nearly
all its time, every transition is worked out; deeper ones compare their few children and follow
failure links:

    needles he she his      dense       0 -h-> 1 -e-> 3     5 = "she" fails to 3 = "he"
                                        |      1 -i-> 4
                                        0 -s-> 2 -h-> ...

Bytes that no needle holds share one class, so a row of the table has an entry per *class*, not per
byte; to ignore the case of ASCII letters is to give `A` the class of `a`, and costs nothing.

A needle may be anchored: CONTAINS stands anywhere, PREFIX and SUFFIX at an end, WHOLE is all of
the text. A *slot* holds the needles of one kind that end in one state, `links` lead from a slot
to the next shorter one. PREFIX and WHOLE are found by walking down the tree from the first byte,
SUFFIX in the state behind the last one.

Invariant: a slot is reported once a row. When it has been, so have all slots behind its link,
which is why the work is linear in bytes plus pairs, however often a needle is repeated.

Cost, in log lines of 120 bytes in which few needles stand, with one busy core of ours: 330 MB/s
for 1,000 needles, 250 for 5,000, 80 for 100,000. The latter are built in 0.1 s and take 34 MB, of
which at most 16 MB are the dense table. With 14 hits in every line it is 30 MB/s.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import njit
from numpy.typing import NDArray

from millrace.kernels.arrays import Bits, Bools, Bytes, Ints, Ints32

CONTAINS, PREFIX, SUFFIX, WHOLE = range(4)

Automaton: TypeAlias = dict[str, NDArray[Any]]
"""Flat arrays by name; they may be written to files and mapped read-only."""

Entries: TypeAlias = NDArray[np.uint32]
Number: TypeAlias = int | np.int64

_DENSE_BYTES = 16 << 20
_FEW = 24  # so many needles are sorted by insertion
_LANES = 4
_ONE = np.uint64(1)


class _Tree(NamedTuple):
    """What a walk over the states reads: one argument in place of eight."""

    shift: int
    n_dense: int
    classes: Bytes
    dense: Entries
    children: Ints32
    labels: Bytes
    fails: Ints32
    contains: Ints32


def build_automaton(
    offsets: Ints, data: Bytes, kinds: Bytes, *, ignore_case: bool = False
) -> Automaton:
    """Build the automaton of the needles `data[offsets[i]:offsets[i + 1]]`, numbered from 0.

    `kinds` says for each whether it is CONTAINS, PREFIX, SUFFIX or WHOLE. With `ignore_case` the
    ASCII letters of needles and texts are alike in both cases. Needles may be equal or empty.
    """
    offsets, data = np.ascontiguousarray(offsets, np.int64), np.ascontiguousarray(data, np.uint8)
    classes, n_classes = _byte_classes(data[offsets[0] : offsets[-1]], ignore_case=ignore_case)
    children, labels, ends = _grow(offsets, data, classes)
    shift = (n_classes - 1).bit_length()
    n_dense = min(labels.size, max(1, _DENSE_BYTES >> (shift + 2)))
    order, firsts, own = _slots(ends, kinds, labels.size)
    fails, dense = _link(shift, n_dense, classes, children, labels, own[CONTAINS])
    links = np.full(firsts.size - 1, -1, np.int32)
    # The empty needle is told at the start of a row: else each state would have to tell of it.
    empty, own[CONTAINS, 0] = own[CONTAINS, 0], -1
    _nearest(fails, own[CONTAINS], links)
    _nearest(fails, own[SUFFIX], links)
    _flag(dense, own[CONTAINS])
    own[CONTAINS, 0] = empty
    anywhere = (kinds == CONTAINS) | (kinds == SUFFIX)
    return {
        "shape": np.array([shift, n_dense, anywhere.any(), not anywhere.all()], np.int64),
        "classes": classes,
        "dense": dense,
        "children": children,
        "labels": labels,
        "fails": fails,
        "contains": own[CONTAINS].copy(),
        "prefix": own[PREFIX].copy(),
        "suffix": own[SUFFIX].copy(),
        "whole": own[WHOLE].copy(),
        "links": links,
        "firsts": firsts,
        "needles": order,
    }


def scan_texts(
    automaton: Automaton, offsets: Ints32 | Ints, data: Bytes, valid: Bools | None
) -> tuple[Ints32, Ints32]:
    """Return the pairs (row, needle) such that the needle stands in the row, in no set order.

    Row i is `data[offsets[i]:offsets[i + 1]]`; a row that is not valid is NULL and holds nothing.
    Each pair comes once.
    """
    known = np.empty(0, np.bool_) if valid is None or valid.all() else valid
    texts = _read_only(offsets.astype(np.int64)), _read_only(data), _read_only(known)
    shift, n_dense, anywhere, anchored = automaton["shape"].tolist()
    parts = {name: _read_only(part) for name, part in automaton.items()}
    tree = _Tree(shift, n_dense, *(parts[name] for name in _Tree._fields[2:]))
    hits = [np.empty(0, np.int64)]
    if anywhere and offsets.size > 1:
        hits.append(_scan(*texts, tree, parts["suffix"], parts["links"]))
    if anchored and offsets.size > 1:
        hits.append(_walk_down(*texts, tree, parts["prefix"], parts["whole"]))
    pairs: tuple[Ints32, Ints32] = _expand(np.concatenate(hits), parts["firsts"], parts["needles"])
    return pairs


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """View an array as a mapped file is seen, so that a kernel is compiled for this form only."""
    view = np.ascontiguousarray(array).view(np.ndarray)[:]
    view.flags.writeable = False
    return view


def _byte_classes(data: Bytes, *, ignore_case: bool) -> tuple[Bytes, int]:
    """Number the bytes that needles hold from 1 on, all others 0 (if there are any)."""
    used = np.bincount(data, minlength=256) > 0
    upper, lower = slice(65, 91), slice(97, 123)
    if ignore_case:
        used[lower] |= used[upper]
        used[upper] = False
    spare = int(not used.all())
    classes = np.where(used, np.cumsum(used) - 1 + spare, 0).astype(np.uint8)
    if ignore_case:
        classes[upper] = classes[lower]
    return classes, int(used.sum()) + spare


def _slots(ends: Ints32, kinds: Bytes, n_states: int) -> tuple[Ints32, Ints32, Ints32]:
    """Return the needles ordered by slot, where each slot starts, and the slot of (kind, state)."""
    keys = kinds.astype(np.int64) * n_states + ends
    order = np.argsort(keys, kind="stable")
    distinct, firsts = np.unique(keys[order], return_index=True)
    own = np.full(4 * n_states, -1, np.int32)
    own[distinct] = np.arange(distinct.size)
    stops = np.append(firsts, keys.size)
    return order.astype(np.int32), stops.astype(np.int32), own.reshape(4, n_states)


@njit(cache=True, nogil=True)
def _grow(offsets: Ints, data: Bytes, classes: Bytes) -> tuple[Ints32, Bytes, Ints32]:
    """Number the states level by level; return children, labels, and where each needle ends.

    A state is a stretch of `order`: the needles that share its text. Sorting a stretch by the next
    byte makes those of each child adjacent.
    """
    n_needles = offsets.size - 1
    room = offsets[n_needles] - offsets[0] + 1
    lows, highs = np.empty(room, np.int32), np.empty(room, np.int32)
    depths = np.empty(room, np.int32)
    children, labels = np.empty(room + 1, np.int32), np.zeros(room, np.uint8)
    ends, order = np.zeros(n_needles, np.int32), np.arange(n_needles).astype(np.int32)
    keys, spare = np.empty(n_needles, np.int32), np.empty(n_needles, np.int32)
    lows[0], highs[0], depths[0] = 0, n_needles, 0
    n_states, state = 1, 0
    while state < n_states:
        low, high, depth = lows[state], highs[state], depths[state]
        for index in range(low, high):
            at = offsets[order[index]] + depth
            keys[index] = classes[data[at]] if at < offsets[order[index] + 1] else -1
        if high - low > 1:
            _sort_stretch(order, keys, spare, low, high)
        children[state] = n_states
        index = low
        while index < high:
            key, first = keys[index], index
            while index < high and keys[index] == key:
                if key < 0:
                    ends[order[index]] = state
                index += 1
            if key >= 0:
                lows[n_states], highs[n_states], depths[n_states] = first, index, depth + 1
                labels[n_states] = key
                n_states += 1
        state += 1
    children[n_states] = n_states
    return children[: n_states + 1].copy(), labels[:n_states].copy(), ends


@njit(cache=True, nogil=True)
def _sort_stretch(order: Ints32, keys: Ints32, spare: Ints32, low: int, high: int) -> None:
    """Sort `order[low:high]` and `keys` by the keys, which are -1 to 255, in place."""
    if high - low <= _FEW:
        for index in range(low + 1, high):
            key, needle, at = keys[index], order[index], index
            while at > low and keys[at - 1] > key:
                keys[at], order[at] = keys[at - 1], order[at - 1]
                at -= 1
            keys[at], order[at] = key, needle
        return
    places = np.zeros(258, np.int64)
    for index in range(low, high):
        places[keys[index] + 2] += 1
    for key in range(1, 258):
        places[key] += places[key - 1]
    for index in range(low, high):
        at = low + places[keys[index] + 1]
        places[keys[index] + 1] += 1
        spare[at] = order[index]
    for key in range(257):
        first = low + (places[key - 1] if key else 0)
        keys[first : low + places[key]] = key - 1
    order[low:high] = spare[low:high]


@njit(cache=True, nogil=True)
def _link(
    shift: int, n_dense: int, classes: Bytes, children: Ints32, labels: Bytes, contains: Ints32
) -> tuple[Ints32, Entries]:
    """Find the failure link of each state, and all transitions of the first `n_dense` ones."""
    n_states, width = labels.size, 1 << shift
    fails, dense = np.zeros(n_states, np.int32), np.zeros(n_dense << shift, np.uint32)
    tree = _Tree(shift, n_dense, classes, dense, children, labels, fails, contains)
    for state in range(n_states):
        here, there = state << shift, fails[state] << shift
        if 0 < state < n_dense:
            dense[here : here + width] = dense[there : there + width]
        for child in range(children[state], children[state + 1]):
            if state > 0:
                fails[child] = _step(tree, fails[state], labels[child]) >> 1
            if state < n_dense:
                dense[here + labels[child]] = child << 1
    return fails, dense


@njit(cache=True, nogil=True)
def _step(tree: _Tree, state: Number, label: int) -> Number:
    """Return the entry that leads on: twice the next state, plus 1 if it has a slot to tell."""
    while state >= tree.n_dense:
        for child in range(tree.children[state], tree.children[state + 1]):
            if tree.labels[child] == label:
                return 2 * child + (1 if tree.contains[child] >= 0 else 0)
        state = tree.fails[state]
    return np.int64(tree.dense[(state << tree.shift) + label])


@njit(cache=True, nogil=True)
def _nearest(fails: Ints32, slots: Ints32, links: Ints32) -> None:
    """Give each state without a slot that of its longest suffix that has one, in place."""
    for state in range(1, fails.size):
        shorter = slots[fails[state]]
        if slots[state] < 0:
            slots[state] = shorter
        else:
            links[slots[state]] = shorter


@njit(cache=True, nogil=True)
def _flag(dense: Entries, contains: Ints32) -> None:
    """Mark the transitions into states that have something to tell, in place."""
    for index in range(dense.size):
        if contains[dense[index] >> np.uint32(1)] >= 0:
            dense[index] |= np.uint32(1)


@njit(cache=True, nogil=True)
def _scan(  # noqa: C901 - one loop: a call per branch would count references to each array
    offsets: Ints, data: Bytes, valid: Bools, tree: _Tree, suffix: Ints32, links: Ints32
) -> Ints:
    """Find the slots of needles that stand anywhere or at the end, four rows side by side.

    A transition waits for the one before it, but those of four rows do not wait for each other.
    """
    hits, contains = np.zeros(1024, np.int64), tree.contains
    told = np.full((_LANES, links.size), -1, np.int32)
    row_of, states = np.full(_LANES, -1, np.int32), np.zeros(_LANES, np.uint64)
    ats, stops = np.zeros(_LANES, np.int64), np.zeros(_LANES, np.int64)
    next_row, n_rows = 0, offsets.size - 1
    while True:
        n_steps, live = data.size, -1
        for lane in range(_LANES):
            while ats[lane] == stops[lane]:
                if row_of[lane] >= 0 and suffix[states[lane]] >= 0:
                    hits = _tell(hits, row_of[lane], suffix[states[lane]], links, told[lane])
                while valid.size > 0 and next_row < n_rows and not valid[next_row]:
                    next_row += 1
                states[lane] = 0
                row_of[lane] = next_row if next_row < n_rows else -1
                if next_row >= n_rows:
                    break
                if contains[0] >= 0:
                    hits = _tell(hits, next_row, contains[0], links, told[lane])
                ats[lane], stops[lane] = offsets[next_row], offsets[next_row + 1]
                next_row += 1
            if row_of[lane] >= 0:
                n_steps, live = min(n_steps, stops[lane] - ats[lane]), lane
        if live < 0:
            break
        for lane in range(_LANES):
            if row_of[lane] < 0:  # no row is left for it: it walks along, for there must be four
                ats[lane] = stops[lane] = ats[live]
        n_taken = _advance(data, tree, ats, states, n_steps)
        for lane in range(_LANES):
            if row_of[lane] >= 0:
                ats[lane] += n_taken
                slot = contains[states[lane]]
                if slot >= 0 and told[lane, slot] != row_of[lane]:
                    hits = _tell(hits, row_of[lane], slot, links, told[lane])
    return hits[1 : hits[0] + 1]


@njit(cache=True, nogil=True)
def _advance(data: Bytes, tree: _Tree, ats: Ints, states: Bits, n_steps: Number) -> Number:
    """Take up to `n_steps` steps in each lane, none behind a state that has a slot to tell."""
    shift, limit = np.uint64(tree.shift), np.uint64(tree.n_dense)
    classes, dense = tree.classes, tree.dense
    at_0, at_1 = np.uint64(ats[0]), np.uint64(ats[1])
    at_2, at_3 = np.uint64(ats[2]), np.uint64(ats[3])
    state_0, state_1, state_2, state_3 = states[0], states[1], states[2], states[3]
    for step in range(np.uint64(n_steps)):
        label_0, label_1 = classes[data[at_0 + step]], classes[data[at_1 + step]]
        label_2, label_3 = classes[data[at_2 + step]], classes[data[at_3 + step]]
        if max(state_0, state_1, state_2, state_3) < limit:
            entry_0 = np.uint64(dense[(state_0 << shift) | np.uint64(label_0)])
            entry_1 = np.uint64(dense[(state_1 << shift) | np.uint64(label_1)])
            entry_2 = np.uint64(dense[(state_2 << shift) | np.uint64(label_2)])
            entry_3 = np.uint64(dense[(state_3 << shift) | np.uint64(label_3)])
        else:
            entry_0 = np.uint64(_step(tree, np.int64(state_0), label_0))
            entry_1 = np.uint64(_step(tree, np.int64(state_1), label_1))
            entry_2 = np.uint64(_step(tree, np.int64(state_2), label_2))
            entry_3 = np.uint64(_step(tree, np.int64(state_3), label_3))
        state_0, state_1 = entry_0 >> _ONE, entry_1 >> _ONE
        state_2, state_3 = entry_2 >> _ONE, entry_3 >> _ONE
        if (entry_0 | entry_1 | entry_2 | entry_3) & _ONE:
            n_steps = np.int64(step) + 1
            break
    states[0], states[1], states[2], states[3] = state_0, state_1, state_2, state_3
    return n_steps


@njit(cache=True, nogil=True)
def _walk_down(
    offsets: Ints, data: Bytes, valid: Bools, tree: _Tree, prefix: Ints32, whole: Ints32
) -> Ints:
    """Find the slots of needles that stand at the first byte: follow each row down the tree."""
    hits = np.zeros(1024, np.int64)
    for row in range(offsets.size - 1):
        if valid.size > 0 and not valid[row]:
            continue
        at, stop = offsets[row], offsets[row + 1]
        state: Number = 0
        while state >= 0:
            if prefix[state] >= 0:
                hits = _note(hits, row, prefix[state])
            if at == stop:
                break
            state = _child(tree, state, tree.classes[data[at]])
            at += 1
        if state >= 0 and whole[state] >= 0:
            hits = _note(hits, row, whole[state])
    return hits[1 : hits[0] + 1]


@njit(cache=True, nogil=True)
def _child(tree: _Tree, state: Number, label: int) -> Number:
    """Return the child of a state by a class of bytes, or -1."""
    first, stop = tree.children[state], tree.children[state + 1]
    if state < tree.n_dense:
        target = np.int64(tree.dense[(state << tree.shift) + label]) >> 1
        return target if first <= target < stop else -1
    for child in range(first, stop):
        if tree.labels[child] == label:
            return child
    return -1


@njit(cache=True, nogil=True)
def _tell(hits: Ints, row: int, slot: int, links: Ints32, told: Ints32) -> Ints:
    """Note a slot and those behind its link, up to one that has been told of this row."""
    while slot >= 0 and told[slot] != row:
        told[slot] = row
        hits = _note(hits, row, slot)
        slot = links[slot]
    return hits


@njit(cache=True, nogil=True)
def _note(hits: Ints, row: int, slot: int) -> Ints:
    """Add a hit, row and slot in one number; `hits[0]` counts them, and the array doubles."""
    hits[0] += 1
    if hits[0] == hits.size:
        hits = np.append(hits, hits)
    hits[hits[0]] = np.int64(row) << 32 | slot
    return hits


@njit(cache=True, nogil=True)
def _expand(hits: Ints, firsts: Ints32, needles: Ints32) -> tuple[Ints32, Ints32]:
    """Replace each slot by its needles."""
    n_pairs = 0
    for hit in hits:
        n_pairs += firsts[(hit & 0xFFFFFFFF) + 1] - firsts[hit & 0xFFFFFFFF]
    rows, found = np.empty(n_pairs, np.int32), np.empty(n_pairs, np.int32)
    at = 0
    for hit in hits:
        slot = hit & 0xFFFFFFFF
        for index in range(firsts[slot], firsts[slot + 1]):
            rows[at], found[at] = hit >> 32, needles[index]
            at += 1
    return rows, found
