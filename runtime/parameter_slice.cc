#include "runtime/parameter_slice.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

std::string chunk_suffix(const ParameterSlice& slice) {
  return slice.is_whole() ? "" : fmt::format(".chunk{}", slice.chunk);
}

SliceRun run_from(const ParameterSlice& slice, const Shape& shape, std::int64_t at) {
  if (slice.is_whole()) return {at, at, shape.num_elems() - at};
  // Runs of one length lie one behind the other in the slice, and in the whole as far apart as all chunks'.
  const std::int64_t rows = shape[0], columns = shape.num_elems() / std::max<std::int64_t>(rows, 1);
  const std::int64_t length = slice.dim == CutDim::kRows ? rows / slice.sections * columns : columns;
  const std::int64_t run = at / length, within = at % length;
  return {.first = at,
          .first_of_whole = (run * slice.chunks + slice.chunk) * length + within,
          .count = length - within};
}

}  // namespace trireme
