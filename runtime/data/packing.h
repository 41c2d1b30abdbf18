// Packs sequences into rows of fixed length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// The indices of `lengths`, row by row. Longest sequences first, each goes to the row with the least
/// sufficient space, or to a new row (best fit decreasing; Krell et al. 2021). Ties go to the first sequence
/// and the first row, so that every rank computes the same result. Each length is in [1, row_length].
std::vector<std::vector<std::int32_t>> pack_rows(std::span<const std::int32_t> lengths,
                                                 std::int32_t row_length);

}  // namespace trireme
