#include "runtime/parameter_slice.h"

#include <fmt/core.h>

#include <algorithm>

namespace trireme {

std::string chunk_suffix(const ParameterSlice& slice) {
  return slice.is_whole() ? "" : fmt::format(".chunk{}", slice.chunk);
}

std::string whole_name(const ParameterSlice& slice, const std::string& name) {
  return name.substr(0, name.size() - chunk_suffix(slice).size());
}

Shape whole_shape(const ParameterSlice& slice, const Shape& shape) {
  if (slice.is_whole()) return shape;
  const bool rows = slice.dim == CutDim::kRows;
  const std::int64_t first = shape[0] * (rows ? slice.chunks : 1);
  if (shape.rank() == 1) return {first};
  return {first, shape[1] * (rows ? 1 : slice.chunks)};
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
