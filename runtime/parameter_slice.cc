#include "runtime/parameter_slice.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace trireme {

ParameterSlice slice_of_chunk(int chunk, int chunks, CutDim dim, std::array<int, 3> sections) {
  if (chunks == 1) return {};
  return {.chunk = chunk, .chunks = chunks, .dim = dim, .sections = sections};
}

int num_section_units(const ParameterSlice& slice) {
  if (slice.dim == CutDim::kColumns) return 1;
  return std::accumulate(slice.sections.begin(), slice.sections.end(), 0);
}

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
  const std::int64_t rows = shape[0], columns = shape.num_elems() / std::max<std::int64_t>(rows, 1);
  // Runs are contiguous in the slice; in the whole, the runs of the other chunks separate them.
  const auto run = [&](std::int64_t start, std::int64_t length) {
    const std::int64_t within = at - start;
    return SliceRun{.first = at,
                    .first_of_whole = start * slice.chunks + slice.chunk * length + within,
                    .count = length - within};
  };
  if (slice.dim == CutDim::kColumns) return run(at / columns * columns, columns);
  const std::int64_t unit = rows / num_section_units(slice) * columns;
  std::int64_t start = 0;
  for (const int size : slice.sections) {
    const std::int64_t length = size * unit;
    if (at < start + length) return run(start, length);
    start += length;
  }
  return run(start, 0);  // behind the last run
}

}  // namespace trireme
