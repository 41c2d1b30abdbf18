// Packs sequences into rows of fixed length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme {

/// The indices of `lengths`, row by row: the longest sequence first, each in the row with the least space
/// that still holds it, a new one where none does (best fit decreasing; Krell et al. 2021). Of equal lengths
/// and of equal rows the first ones come first, so that every rank finds the same. Each length is in [1,
/// row_length].
std::vector<std::vector<std::int32_t>> pack_rows(std::span<const std::int32_t> lengths,
                                                 std::int32_t row_length);

}  // namespace trireme
