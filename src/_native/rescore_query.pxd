# Fills a shp_rescore_query from Python's values; for every extension that ranks.
from libc.math cimport isfinite
from libc.stdint cimport int64_t

from rescore cimport (
    SHP_RESCORE_MAX_PERIODS,
    SHP_TALKS,
    shp_rescore_default_weights,
    shp_rescore_query,
    shp_rescore_weights,
)


cdef inline int set_weights(shp_rescore_weights* out, weights) except -1:
    cdef double[13] values
    cdef int i
    if len(weights) != 13:
        raise ValueError(f"rank.Weights are thirteen numbers, not {len(weights)}")
    for i in range(13):
        values[i] = weights[i]
        if not (isfinite(values[i]) and values[i] >= 0):
            raise ValueError("weights are numbers from 0 on")
    out.answer[0], out.answer[1], out.answer[2] = values[0], values[1], values[2]
    out.next, out.second, out.session = values[3], values[4], values[5]
    out.asking, out.label, out.period = values[6], values[7], values[8]
    out.instruction, out.preference, out.length, out.pair = values[9], values[10], values[11], values[12]
    if out.length == 0:
        raise ValueError("the factor of length is above 0")
    return 0


cdef inline int set_rescore_query(shp_rescore_query* out, double now, double recency_floor, periods, weights,
                                  bint is_request) except -1:
    """Fill everything but labels and pairs; the caller has checked `now` and `recency_floor`.

    `weights` are for every memory, whoever wrote it.  `is_request`: the query wants something done.
    """
    cdef int talk
    out.now, out.recency_floor = now, recency_floor
    for talk in range(SHP_TALKS):
        if weights is None:
            out.weights[talk] = shp_rescore_default_weights(talk)
        else:
            set_weights(&out.weights[talk], weights)
        if not is_request:
            out.weights[talk].instruction = out.weights[talk].preference = 1.0
    out.n_labels = out.n_periods = out.n_pairs = 0
    for first, end in periods:
        if out.n_periods == SHP_RESCORE_MAX_PERIODS:
            raise ValueError(f"at most {SHP_RESCORE_MAX_PERIODS} periods")
        out.periods[out.n_periods][0], out.periods[out.n_periods][1] = first, end
        out.n_periods += 1
    return 0
