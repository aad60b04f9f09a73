"""The compiled loops: distances of packed codes, counting, and the sums that numpy is too slow for.

Every function has a plain twin of the same meaning elsewhere in the package, and tests hold them equal.
Signatures are given, so that importing this module compiles everything or finds it in the cache on disk;
only `core.kernels.kernels` imports it. Read-only arrays are accepted everywhere.
"""

import numpy as np
from llvmlite import binding
from numba import boolean, float32, float64, int16, int32, int64, njit, types, uint32, uint64, void
from numba.extending import intrinsic

HAS_VECTOR_POPCOUNT = bool(binding.get_host_cpu_features().get("avx512vpopcntdq", False))
BLOCK = 4096  # codes whose distances fit the first-level cache as bytes
TILE = 1 << 18  # items that all queries meet before the next ones: they stay in a near cache, and no uint32 overflows


def _array(dtype, ndim):
    return types.Array(dtype, ndim, "C", readonly=True)


def _out(dtype, ndim):
    return types.Array(dtype, ndim, "C")


@intrinsic
def popcount(typingctx, word):
    """The number of ones in an unsigned word: one instruction."""

    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), codegen


@njit(nogil=True)
def _eight_queries(queries, gallery, out):
    # Eight histograms at once: neighbouring increments never meet in one counter, so none waits for another.
    histograms = np.zeros((8, 65), np.int64)
    h0, h1, h2, h3 = histograms[0], histograms[1], histograms[2], histograms[3]
    h4, h5, h6, h7 = histograms[4], histograms[5], histograms[6], histograms[7]
    last = len(queries) - 1
    for first in range(0, len(queries), 8):
        histograms[:] = 0
        q0, q1 = queries[first], queries[min(first + 1, last)]
        q2, q3 = queries[min(first + 2, last)], queries[min(first + 3, last)]
        q4, q5 = queries[min(first + 4, last)], queries[min(first + 5, last)]
        q6, q7 = queries[min(first + 6, last)], queries[min(first + 7, last)]
        for item in gallery:
            h0[popcount(q0 ^ item)] += 1
            h1[popcount(q1 ^ item)] += 1
            h2[popcount(q2 ^ item)] += 1
            h3[popcount(q3 ^ item)] += 1
            h4[popcount(q4 ^ item)] += 1
            h5[popcount(q5 ^ item)] += 1
            h6[popcount(q6 ^ item)] += 1
            h7[popcount(q7 ^ item)] += 1
        for i in range(min(8, len(queries) - first)):
            for d in range(out.shape[1]):
                out[first + i, d] += histograms[i, d]


@njit(nogil=True)
def _distances(query, gallery, start, buffer):
    # One pass over the block for each word: contiguous reads, which the compiler turns into vector instructions.
    for w in range(len(query)):
        word = query[w]
        block = gallery[w, start : start + len(buffer)]
        if w == 0:
            for j in range(len(block)):
                buffer[j] = popcount(word ^ block[j])
        else:
            for j in range(len(block)):
                buffer[j] += popcount(word ^ block[j])


@njit(nogil=True)
def _byte_distances(queries, gallery, first, last, out):
    # Distances below 256 as bytes; two bytes read as one uint16 count two items with one increment.
    n_bins = out.shape[1]
    buffer = np.empty(BLOCK, np.uint8)
    pairs = np.zeros(256 * n_bins, np.uint32)
    for i in range(len(queries)):
        for start in range(first, last, BLOCK):
            block = buffer[: min(BLOCK, last - start)]
            _distances(queries[i], gallery, start, block)
            if len(block) % 2:
                out[i, block[len(block) - 1]] += 1
            for pair in block[: len(block) // 2 * 2].view(np.uint16):
                pairs[pair] += np.uint32(1)
        for high in range(n_bins):
            for low in range(n_bins):
                count = pairs[256 * high + low]
                out[i, high] += count
                out[i, low] += count
                pairs[256 * high + low] = 0


@njit(nogil=True)
def _long_distances(queries, gallery, first, last, out):
    buffer = np.empty(BLOCK, np.uint16)
    for i in range(len(queries)):
        for start in range(first, last, BLOCK):
            block = buffer[: min(BLOCK, last - start)]
            _distances(queries[i], gallery, start, block)
            for distance in block:
                out[i, distance] += 1


@njit(
    void(_array(uint64, 2), _array(uint64, 2), _array(int64, 2), boolean, _out(int64, 2)),
    nogil=True,
    cache=True,
)
def scan(queries, gallery, runs, buffered, out):
    """Add to `out` (queries, n_bits + 1) how many items stand at each distance from each query.

    queries: (queries, words); gallery: (words, items). Each row (q0, q1, g0, g1) of `runs` compares queries
    q0..q1 with items g0..g1. `buffered` chooses, for codes of one word, distances written to a buffer (best
    where the processor counts the bits of a whole vector) over eight queries at a time (best elsewhere).
    """
    for t in range(len(runs)):
        q0, q1, g0, g1 = runs[t]
        if q0 == q1 or g0 == g1:
            continue
        for first in range(g0, g1, TILE):
            last = min(first + TILE, g1)
            if out.shape[1] > 256:
                _long_distances(queries[q0:q1], gallery, first, last, out[q0:q1])
            elif queries.shape[1] > 1 or buffered:
                _byte_distances(queries[q0:q1], gallery, first, last, out[q0:q1])
            else:
                _eight_queries(queries[q0:q1, 0], gallery[0, first:last], out[q0:q1])


@njit(
    void(_array(uint64, 2), _array(uint64, 2), int64, _array(int16, 2), _out(int64, 3)),
    nogil=True,
    cache=True,
)
def scan_graded(queries, gallery, first, grades, out):
    """Add to `out` (grades, queries, n_bits + 1) the items first, first + 1, … with the grades of a block."""
    buffer = np.empty(BLOCK, np.uint16)
    n_items = grades.shape[1]
    for i in range(len(queries)):
        for start in range(0, n_items, BLOCK):
            block = buffer[: min(BLOCK, n_items - start)]
            _distances(queries[i], gallery, first + start, block)
            for j in range(len(block)):
                out[grades[i, start + j], i, block[j]] += 1


@njit(
    void(_array(uint64, 1), _array(int32, 1), _array(int32, 1), _out(uint32, 2)),
    nogil=True,
    cache=True,
)
def tabulate(words, labels, rows, out):
    """Add one to out[rows[label], code] for every item whose label has a row; -1 is none."""
    for i in range(len(words)):
        row = rows[labels[i]]
        if row >= 0:
            out[row, words[i]] += np.uint32(1)


@njit([void(_out(uint32, 2)), void(_out(int64, 2))], nogil=True, cache=True)
def spread(counts):
    """Turn counts[0] = items on each code into counts[d, x] = items at distance d from code x, for every x.

    Bit by bit: an item at distance d from x either shares the bit or stood at distance d - 1 from x with the
    bit flipped. Descending d reads the row below before this bit has changed it.
    """
    n_bits, n_codes = counts.shape[0] - 1, counts.shape[1]
    for bit in range(n_bits):
        step = 1 << bit
        for d in range(bit + 1, 0, -1):
            here, below = counts[d], counts[d - 1]
            for base in range(0, n_codes, 2 * step):
                zero, one = here[base : base + step], here[base + step : base + 2 * step]
                below_zero, below_one = below[base : base + step], below[base + step : base + 2 * step]
                for x in range(step):
                    zero[x] += below_one[x]
                    one[x] += below_zero[x]


@njit([void(_out(uint32, 2)), void(_out(int64, 2))], nogil=True, cache=True)
def spread_largest(counts):
    """As `spread`, for the largest number of items on one code at each distance below counts' height."""
    n_codes = counts.shape[1]
    step = 1
    while step < n_codes:
        for d in range(len(counts) - 1, 0, -1):
            here, below = counts[d], counts[d - 1]
            for base in range(0, n_codes, 2 * step):
                zero, one = here[base : base + step], here[base + step : base + 2 * step]
                below_zero, below_one = below[base : base + step], below[base + step : base + 2 * step]
                for x in range(step):
                    zero[x] = max(zero[x], below_one[x])
                    one[x] = max(one[x], below_zero[x])
        step *= 2


@njit(
    void(_array(uint64, 2), _array(uint64, 2), _array(int64, 1), _array(int64, 1), _array(int64, 1), _out(int64, 2)),
    nogil=True,
    cache=True,
)
def largest(queries, gallery, counts, excluded_start, excluded, out):
    """Raise out[i, d] to the largest number of items on one code at distance d from query i, for d below out's width.

    gallery: (words, codes), each code once, with the number of its items in `counts`; query i leaves out one
    item of each code in excluded[excluded_start[i] : excluded_start[i + 1]].
    """
    radius = out.shape[1] - 1
    counts = counts.copy()
    buffer = np.empty(BLOCK, np.uint16)
    n_codes = gallery.shape[1]
    for i in range(len(queries)):
        left_out = excluded[excluded_start[i] : excluded_start[i + 1]]
        for code in left_out:
            counts[code] -= 1
        for start in range(0, n_codes, BLOCK):
            block = buffer[: min(BLOCK, n_codes - start)]
            _distances(queries[i], gallery, start, block)
            nearest = block[0]  # most blocks hold nothing near: a vector minimum finds that out fastest
            for distance in block:
                nearest = min(nearest, distance)
            if nearest <= radius:
                for j in range(len(block)):
                    if block[j] <= radius:
                        out[i, block[j]] = max(out[i, block[j]], counts[start + j])
        for code in left_out:
            counts[code] += 1


@njit(
    int64(_array(uint64, 1), _array(uint64, 2), int64, _out(int64, 1), _out(int64, 1)),
    nogil=True,
    cache=True,
)
def near(query, gallery, radius, places, distances):
    """How many codes are within a radius of a query; the places and distances of the first ones, as there is room."""
    buffer = np.empty(BLOCK, np.uint16)
    n_codes = gallery.shape[1]
    found = 0
    for start in range(0, n_codes, BLOCK):
        block = buffer[: min(BLOCK, n_codes - start)]
        _distances(query, gallery, start, block)
        nearest = block[0]
        for distance in block:
            nearest = min(nearest, distance)
        if nearest <= radius:
            for j in range(len(block)):
                if block[j] <= radius:
                    if found < len(places):
                        places[found] = start + j
                        distances[found] = block[j]
                    found += 1
    return found


@njit(nogil=True)
def _take(scores, end, value, equal):
    # the start of the run of scores above `value`, or equal to it, that ends before `end`
    start = end
    if equal:
        while start > 0 and scores[start - 1] == value:
            start -= 1
    else:
        while start > 0 and scores[start - 1] > value:
            start -= 1
    return start


@njit(
    [
        int64(
            _array(t, 1),
            _array(t, 1),
            _array(int64, 1),
            _array(t, 1),
            boolean,
            int64,
            _out(float64, 1),
            types.Array(int64, 2, "A"),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def around(scores, marks, grade_starts, excluded, every_score, background, group_scores, counts):
    """Fill one query's groups, the highest score first, and return how many there are.

    scores, excluded: rising, of all items and of those that do not rank. marks: scores of the items that are not of
    the background's grade, those of grade v rising in marks[grade_starts[v] : grade_starts[v + 1]]. Other items count
    in row `background` of counts (grades and unjudged, groups): between two marks they are one group, or with
    `every_score` one for each score. The scores of groups that are of one score are kept, if there is room for any.
    """
    n_grades = len(grade_starts) - 1
    ends = grade_starts[1:].copy()
    position, gone = len(scores), len(excluded)
    n_groups = 0
    while position > 0:
        unmoved = position
        mark = -np.inf
        marked = False
        for v in range(n_grades):
            if ends[v] > grade_starts[v]:
                mark = max(mark, marks[ends[v] - 1])
                marked = True
        if every_score:
            mark = scores[position - 1]
        above = _take(scores, position, mark, False) if marked or every_score else 0
        gone_above = _take(excluded, gone, mark, False) if marked or every_score else 0
        others = position - above - (gone - gone_above)
        if others > 0:
            counts[background, n_groups] = others
            n_groups += 1
        position, gone = above, gone_above
        if not (marked or every_score):
            break
        start, gone_start = _take(scores, position, mark, True), _take(excluded, gone, mark, True)
        here = position - start - (gone - gone_start)
        rest = here
        for v in range(n_grades):
            first = ends[v]
            while first > grade_starts[v] and marks[first - 1] == mark:
                first -= 1
            counts[v, n_groups] = ends[v] - first
            rest -= ends[v] - first
            ends[v] = first
        if here > 0:
            counts[background, n_groups] += rest
            if len(group_scores) > 0:
                group_scores[n_groups] = mark
            n_groups += 1
        position, gone = start, gone_start
        if position == unmoved:  # a score that is no number: never, but no reason to go on for ever
            break
    return n_groups


@njit(
    [
        int64(
            *(_array(int64, 1), _array(t, 1), _array(int64, 2)) * 2,
            int64,
            _out(int64, 1),
            _out(t, 1),
            _out(int64, 2),
        )
        for t in (float32, float64)
    ],
    nogil=True,
    cache=True,
)
def merge_groups(starts, scores, counts, more_starts, more_scores, more_counts, k, out_starts, out_scores, out_counts):
    """Merge the tie groups of each query in two parts of a gallery, both with the highest score first.

    Those of query i are starts[i] : starts[i + 1]; counts: (groups, columns). Groups that begin past k items are left
    out. Returns how many groups there are.
    """
    n = 0
    for i in range(len(starts) - 1):
        out_starts[i] = n
        before = 0
        a, a_end, b, b_end = starts[i], starts[i + 1], more_starts[i], more_starts[i + 1]
        while before < k and (a < a_end or b < b_end):
            from_a = b == b_end or (a < a_end and scores[a] >= more_scores[b])
            from_b = a == a_end or (b < b_end and more_scores[b] >= scores[a])
            out_scores[n] = scores[a] if from_a else more_scores[b]
            for column in range(out_counts.shape[1]):
                count = 0
                if from_a:
                    count += counts[a, column]
                if from_b:
                    count += more_counts[b, column]
                out_counts[n, column] = count
                before += count
            a += from_a
            b += from_b
            n += 1
    out_starts[len(starts) - 1] = n
    return n


@njit(
    [void(_array(t, 1), _array(t, 1), int64, _out(int64, 1), _out(int64, 1)) for t in (float32, float64)],
    nogil=True,
    cache=True,
)
def standing(scores, marks, sign, above, at):
    """Add to `above` and `at`, times the sign, how many scores are above each mark and how many equal to it.

    scores rise, marks fall, each once.
    """
    position = len(scores)
    for m in range(len(marks)):
        while position > 0 and scores[position - 1] > marks[m]:
            position -= 1
        above[m] += sign * (len(scores) - position)
        first = position
        while first > 0 and scores[first - 1] == marks[m]:
            first -= 1
        at[m] += sign * (position - first)
        position = first


@njit([t(_array(t, 1), int64) for t in (float32, float64)], nogil=True, cache=True)
def kth_largest(row, k):
    """The k-th largest number of a row, or the smallest of a shorter one; none is nan."""
    # The largest k so far, in a heap with the smallest of them on top: few of a long row get past it.
    heap = row[:k].copy()
    heap.sort()
    for i in range(len(heap), len(row)):
        value = row[i]
        if value <= heap[0]:
            continue
        place = 0
        while 2 * place + 1 < k:
            child = 2 * place + 1
            if child + 1 < k and heap[child + 1] < heap[child]:
                child += 1
            if value <= heap[child]:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = value
    return heap[0]


@njit(nogil=True)
def _inverse_ranks(before, n):
    # the twin of metrics.ranks.inverse_ranks, for one group
    total = 0.0
    while n > 0 and (before < 64 or n < 4):
        before, n = before + 1, n - 1
        total += 1 / before
    if n == 0:
        return total
    x, y = before + 0.5, before + n + 0.5
    u, v = 1 / (x * x), 1 / (y * y)
    total += np.log1p(n / x)
    return total + v * (1 / 24 + v * (-7 / 960 + v * 31 / 8064)) - u * (1 / 24 + u * (-7 / 960 + u * 31 / 8064))


@njit(
    void(_array(float64, 2), _array(float64, 2), float64, *(_out(float64, 1),) * 12),
    nogil=True,
    cache=True,
)
def precision_sums(
    relevant, retrieved, k,
    expected, best, worst, hits, cut_expected, cut_best, cut_worst, c_before, c_rel_before, c_n, c_r, c_places,
):  # fmt: skip
    """Sums of precision over each query's top k; the twin of metrics.average_precision.precision_sums."""
    for i in range(len(relevant)):
        expected[i] = best[i] = worst[i] = hits[i] = 0
        cut_expected[i] = cut_best[i] = cut_worst[i] = 0
        c_before[i] = c_rel_before[i] = c_n[i] = c_r[i] = c_places[i] = 0
        before = rel_before = 0.0
        for g in range(relevant.shape[1]):
            if before >= k:
                break
            n, r = retrieved[i, g], relevant[i, g]
            places = min(n, k - before)
            high = low = middle = 0.0
            if r == n == 1:  # by far the most frequent, and no order matters
                high = low = middle = (rel_before + 1) / (before + 1)
            elif r > 0:
                inverse = _inverse_ranks(before, places)
                slope = (r - 1) / (n - 1) if n > 1 else 0.0
                middle = r / n * ((rel_before + 1) * inverse + slope * (places - (before + 1) * inverse))
                most, least = min(r, places), max(0.0, places - n + r)
                high = most + (rel_before - before) * _inverse_ranks(before, most)
                last = before + places - least
                low = least + (rel_before - last) * _inverse_ranks(last, least)
            if places == n:
                expected[i] += middle
                best[i] += high
                worst[i] += low
                hits[i] += r
            else:
                cut_expected[i], cut_best[i], cut_worst[i] = middle, high, low
                c_before[i], c_rel_before[i], c_n[i], c_r[i], c_places[i] = before, rel_before, n, r, places
            before += n
            rel_before += r


@njit(
    void(
        _array(float64, 1),
        _array(float64, 1),
        _array(float64, 1),
        _array(float64, 1),
        _array(float64, 1),
        _array(float64, 1),
        _array(float64, 1),
        _array(float64, 1),
        _out(float64, 2),
    ),
    nogil=True,
    cache=True,
)
def average_precision_at_cut(expected, best, worst, before, relevant_before, n, relevant, places, out):
    """out[:, i] = expected, best and worst AP of query i when the cutoff falls inside a tie group.

    The twin of metrics.average_precision.at_cut, which explains it.
    """
    for i in range(len(n)):
        most, least = min(relevant[i], places[i]), max(0.0, places[i] - n[i] + relevant[i])
        inverse_ranks = 0.0
        for t in range(1, int(places[i]) + 1):
            inverse_ranks += 1 / (before[i] + t)
        # hypergeometric chances, relative to the likeliest number of hits, walked outwards until they vanish
        likeliest = np.floor((places[i] + 1) * (relevant[i] + 1) / (n[i] + 2))
        likeliest = min(max(likeliest, least), most)
        mass, total = 0.0, 0.0
        for direction in (1.0, -1.0):
            h, chance = likeliest, 1.0
            while chance > 1e-25:
                if direction > 0 or h != likeliest:
                    slope = (h - 1) / (places[i] - 1) if places[i] > 1 else 0.0
                    part = (relevant_before[i] + 1) * inverse_ranks
                    part += slope * (places[i] - (before[i] + 1) * inverse_ranks)
                    hits = relevant_before[i] + h
                    mass += chance
                    total += chance * (expected[i] + h / places[i] * part) / hits if hits > 0 else 0.0
                if direction > 0:
                    if h == most:
                        break
                    chance *= (relevant[i] - h) * (places[i] - h)
                    chance /= (h + 1) * (n[i] - relevant[i] - places[i] + h + 1)
                else:
                    if h == least:
                        break
                    chance *= h * (n[i] - relevant[i] - places[i] + h)
                    chance /= (relevant[i] - h + 1) * (places[i] - h + 1)
                h += direction
        out[0, i] = total / mass
        first, last = 0.0, 0.0  # sums of 1 / rank over the first and the last h places
        top, bottom = -1.0, 2.0
        for h in range(int(most) + 1):
            if h > 0:
                first += 1 / (before[i] + h)
                last += 1 / (before[i] + places[i] - h + 1)
            if h >= least:
                hits = relevant_before[i] + h
                high = best[i] + h + (relevant_before[i] - before[i]) * first
                low = worst[i] + h + (relevant_before[i] - before[i] - places[i] + h) * last
                top = max(top, high / hits if hits > 0 else 0.0)
                bottom = min(bottom, low / hits if hits > 0 else 0.0)
        out[1, i], out[2, i] = top, bottom


@njit(
    void(_array(float64, 1), _array(float64, 1), _array(float64, 1), float64, _out(float64, 2)),
    nogil=True,
    cache=True,
)
def first_relevant(before, n, relevant, k, out):
    """out[0] = chance that the first relevant item is in the top k, out[1] = its expected reciprocal rank.

    The twin of metrics.first.first_relevant, which explains it.
    """
    for i in range(len(n)):
        chance, hit, reciprocal = relevant[i] / n[i], 0.0, 0.0
        place = 1.0
        while place <= n[i] - relevant[i] + 1 and before[i] + place <= k and chance > 1e-25:
            hit += chance
            reciprocal += chance / (before[i] + place)
            chance *= (n[i] - place - relevant[i] + 1) / max(n[i] - place, 1.0)
            place += 1
        certain = before[i] + n[i] - relevant[i] + 1 <= k
        out[0, i], out[1, i] = 1.0 if certain else min(hit, 1.0), reciprocal


@njit(void(_array(float64, 2), _array(float64, 2), _out(float64, 2)), nogil=True, cache=True)
def threshold_sums(relevant, retrieved, out):
    """Pairs in the right order, tied pairs, and precision; the twin of metrics.thresholds.threshold_sums."""
    for i in range(len(relevant)):
        wrong = tied = area = ranked = hits = 0.0
        for g in range(relevant.shape[1]):
            r, n = relevant[i, g], retrieved[i, g]
            ranked += n
            if r > 0:
                hits += r
                wrong += r * (ranked - hits)  # others at or ahead of it
                tied += r * (n - r)
                area += r * hits / ranked
        others = ranked - hits
        out[0, i], out[1, i], out[2, i], out[3, i], out[4, i] = hits * others - wrong, tied, area, hits, others


@njit(
    void(types.Array(int64, 3, "A", readonly=True), _array(float64, 1), _array(float64, 1), _out(float64, 2)),
    nogil=True,
    cache=True,
)
def gain_sums(by_grade, gains, discounts, out):
    """Expected, best and worst DCG; discounts[r] is the sum of those of ranks 1 to r, the last the cutoff.

    The twin of metrics.gain.gain_sums.
    """
    n_grades, n_queries, n_groups = by_grade.shape
    k = len(discounts) - 1
    for i in range(n_queries):
        before = 0
        for g in range(n_groups):
            if before >= k:
                break
            n, gained = 0, 0.0
            for v in range(n_grades):
                n += by_grade[v, i, g]
                gained += gains[v] * by_grade[v, i, g]
            if gained > 0:
                out[0, i] += gained / n * (discounts[min(before + n, k)] - discounts[before])
                first, last = before, before + n  # the highest grade takes the first places, or the last
                for v in range(n_grades - 1, 0, -1):
                    count = by_grade[v, i, g]
                    out[1, i] += gains[v] * (discounts[min(first + count, k)] - discounts[min(first, k)])
                    out[2, i] += gains[v] * (discounts[min(last, k)] - discounts[min(last - count, k)])
                    first, last = first + count, last - count
            before += n
