"""Philox4x32-10, the random numbers of runtime/base/rng.h."""
import numpy


def philox(counter, key):
    """Four words of Philox4x32-10 for each row; `counter`: four arrays or numbers."""
    words = [numpy.asarray(word, dtype=numpy.uint64) for word in numpy.broadcast_arrays(*counter)]
    low, k0, k1 = numpy.uint64(0xFFFFFFFF), key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = words[0] * numpy.uint64(0xD2511F53), words[2] * numpy.uint64(0xCD9E8D57)
        words = [(p1 >> numpy.uint64(32)) ^ words[1] ^ numpy.uint64(k0), p1 & low,
                 (p0 >> numpy.uint64(32)) ^ words[3] ^ numpy.uint64(k1), p0 & low]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return words
