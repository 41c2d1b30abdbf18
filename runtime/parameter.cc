#include "runtime/parameter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// FNV-1a hash of a name, which keys the parameter's random stream.
std::uint64_t hash_name(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// Box-Muller in double precision, so that the floats do not depend on the last bit of a library's logarithm.
void normal_pair(std::uint32_t a, std::uint32_t b, float stddev, float out[2]) {
  const double u = (static_cast<double>(a) + 1.0) / 4294967296.0;  // (0, 1]
  const double angle = 2.0 * std::numbers::pi * static_cast<double>(b) / 4294967296.0;
  const double radius = std::sqrt(-2.0 * std::log(u)) * stddev;
  out[0] = static_cast<float>(radius * std::cos(angle));
  out[1] = static_cast<float>(radius * std::sin(angle));
}

// The midpoint of one of 2^24 equal parts of (-bound, bound): never an end, and symmetric.
float uniform(std::uint32_t word, float bound) {
  constexpr double kParts = 16777216.0;
  const double place = (static_cast<double>(word >> 8) + 0.5) / kParts;  // (0, 1)
  return static_cast<float>((2.0 * place - 1.0) * static_cast<double>(bound));
}

// Draws four elements of the distribution `init`.
void draw(const Initializer& init, const Philox4& words, float out[4]) {
  if (init.kind == Initializer::Kind::kUniform) {
    for (int i = 0; i < 4; ++i) out[i] = uniform(words[static_cast<std::size_t>(i)], init.width);
    return;
  }
  normal_pair(words[0], words[1], init.width, out);
  normal_pair(words[2], words[3], init.width, out + 2);
}

// Elements [first, first + out.size()) of random stream `stream`.
void fill_random(std::uint64_t stream, std::uint64_t seed, const Initializer& init, std::int64_t first,
                 std::span<float> out) {
  const std::int64_t last = first + static_cast<std::int64_t>(out.size());
  for (std::int64_t group = first / 4; 4 * group < last; ++group) {
    const auto key = static_cast<std::uint64_t>(group);
    const Philox4 words =
        philox4x32({static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32),
                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    float values[4];
    draw(init, words, values);
    for (std::int64_t i = std::max(first, 4 * group); i < std::min(last, 4 * group + 4); ++i)
      out[static_cast<std::size_t>(i - first)] = values[i - 4 * group];
  }
}

}  // namespace

ParameterSpec slice_of(ParameterSpec whole, const ParameterSlice& slice) {
  ParameterSpec spec = std::move(whole);
  spec.slice = slice;
  if (slice.is_whole()) return spec;
  const bool rows = slice.dim == CutDim::kRows;
  const std::int64_t parts = slice.chunks * num_section_units(slice);
  TRIREME_CHECK(
      spec.shape.rank() >= 1 && (rows || spec.shape.rank() == 2) && spec.shape[rows ? 0 : 1] % parts == 0,
      "parameter '{}' {} cannot be cut into {} chunks", spec.name, spec.shape.to_string(), slice.chunks);
  spec.name += chunk_suffix(slice);
  if (spec.shape.rank() == 1) {
    spec.shape = {spec.shape[0] / slice.chunks};
  } else {
    spec.shape = {spec.shape[0] / (rows ? slice.chunks : 1), spec.shape[1] / (rows ? 1 : slice.chunks)};
  }
  return spec;
}

void initialize_parameter(const ParameterSpec& spec, const std::string& full_name, std::uint64_t seed,
                          std::int64_t first, std::span<float> out) {
  const auto count = static_cast<std::int64_t>(out.size());
  TRIREME_CHECK(first >= 0 && first + count <= spec.shape.num_elems(),
                "parameter {} has {} elements; cannot initialise {} from {}", full_name,
                spec.shape.num_elems(), count, first);
  const Initializer::Kind kind = spec.init.kind;
  if (kind == Initializer::Kind::kZeros || kind == Initializer::Kind::kOnes ||
      kind == Initializer::Kind::kConstant) {
    const float constant = kind == Initializer::Kind::kOnes ? 1.0f : 0.0f;
    std::fill(out.begin(), out.end(), kind == Initializer::Kind::kConstant ? spec.init.width : constant);
    return;
  }
  const std::uint64_t stream = hash_name(whole_name(spec.slice, full_name));
  for (std::int64_t at = 0; at < count;) {
    const SliceRun run = run_from(spec.slice, spec.shape, first + at);
    const std::int64_t n = std::min(run.count, count - at);
    fill_random(stream, seed, spec.init, run.first_of_whole,
                out.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)));
    at += n;
  }
}

}  // namespace trireme
