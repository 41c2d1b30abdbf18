#include "runtime/parameter.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// FNV-1a: names a parameter's random stream.
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

}  // namespace

void initialize_parameter(const ParameterSpec& spec, const std::string& full_name, std::uint64_t seed,
                          std::int64_t first, std::span<float> out) {
  const auto count = static_cast<std::int64_t>(out.size());
  TRIREME_CHECK(first % 4 == 0 && first >= 0 && first + count <= spec.shape.num_elems(),
                "parameter {} has {} elements; cannot initialise {} from {}", full_name,
                spec.shape.num_elems(), count, first);
  if (spec.init.kind != Initializer::Kind::kNormal) {
    std::fill(out.begin(), out.end(), spec.init.kind == Initializer::Kind::kOnes ? 1.0f : 0.0f);
    return;
  }
  const std::uint64_t stream = hash_name(full_name);
  for (std::int64_t i = 0; i < count; i += 4) {
    const auto group = static_cast<std::uint64_t>(first + i) / 4;
    const Philox4 words =
        philox4x32({static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(group >> 32),
                    static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                   {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
    float values[4];
    normal_pair(words[0], words[1], spec.init.stddev, values);
    normal_pair(words[2], words[3], spec.init.stddev, values + 2);
    for (std::int64_t j = 0; j < std::min<std::int64_t>(4, count - i); ++j)
      out[static_cast<std::size_t>(i + j)] = values[j];
  }
}

}  // namespace trireme
