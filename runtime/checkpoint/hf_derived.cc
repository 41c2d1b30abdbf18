// Tensors in transformers files whose values follow from the shape of a model.
#include <cmath>
#include <utility>

#include "runtime/checkpoint/hf_model.h"

namespace trireme {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr double kLowestLogit = -1e4;  // in old files; its exp is 0 in fp32

}  // namespace

HfDerived derived_positions(std::string end) {
  return {std::move(end), "positions counted from 0",
          [](const Shape& shape, std::uint64_t index, double value, double) {
            const auto row = shape.empty() ? 1 : static_cast<std::uint64_t>(shape.back());
            return value == static_cast<double>(index % row);
          }};
}

HfDerived derived_causal_mask(std::string end) {
  return {std::move(end), "the causal mask",
          [](const Shape& shape, std::uint64_t index, double value, double) {
            if (shape.size() < 2 || shape.back() != shape[shape.size() - 2]) return false;
            const auto extent = static_cast<std::uint64_t>(shape.back());
            const bool is_seen = index % extent <= index / extent % extent;
            return value == (is_seen ? 1.0 : 0.0);
          }};
}

HfDerived derived_masked_logit(std::string end) {
  return {std::move(end), "a logit of -10000 or less for what a query does not see",
          [](const Shape&, std::uint64_t, double value, double) { return value <= kLowestLogit; }};
}

HfDerived derived_values(std::string end, std::string meaning, std::vector<float> values) {
  constexpr double kSlack = 4.0;      // for rounding on both sides
  constexpr double kSmallest = 6e-8;  // for fp16
  return {
      std::move(end), std::move(meaning),
      [values = std::move(values)](const Shape& shape, std::uint64_t index, double value, double precision) {
        if (shape != Shape{static_cast<std::int64_t>(values.size())}) return false;
        const double expected = values[index];
        return std::abs(value - expected) <= kSlack * precision * std::abs(expected) + kSmallest;
      }};
}

}  // namespace trireme
