#include "runtime/block.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme {

const Adapter* Block::adapter(ParamRef weight) const {
  const auto found = adapters_.find(weight.index);
  return found == adapters_.end() ? nullptr : &found->second;
}

void Block::declare_shared_parameters(int sum) {
  if (!shared_sums_.insert(sum).second) return;
  tensor_calls_.backward.push_back(TensorCall::kSum);
  if (!sequence_calls_) return;
  // Backward visits the sums from the last to the first, and scatters the gradient of each one's input.
  std::vector<TensorCall>& calls = sequence_calls_->backward;
  auto behind = calls.end();
  for (int last = 0; last <= sum; ++last) {
    while (*--behind != TensorCall::kScatterSum) {
    }
  }
  calls.insert(behind + 1, TensorCall::kSum);
}

void Block::add_adapter(ParamRef weight, std::int64_t rank, float scale) {
  const ParameterSpec spec = parameters_.at(static_cast<std::size_t>(weight.index));
  const std::string name = whole_name(spec.slice, spec.name);
  const Shape shape = whole_shape(spec.slice, spec.shape);
  TRIREME_CHECK(spec.allows_fp8 && spec.shape.rank() == 2 && !adapters_.contains(weight.index),
                "parameter '{}' {} takes no adapter: only the weight of an inner linear layer does, and one",
                full_name(name), shape.to_string());
  const std::int64_t out = shape[0], in = shape[1];
  TRIREME_CHECK(rank >= 1 && rank <= std::min(out, in),
                "an adapter of rank {} for '{}' {}: the rank must be from 1 to {}, the smaller of its dims",
                rank, full_name(name), shape.to_string(), std::min(out, in));
  const std::string layer = layer_of_weight(name);
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in)));
  const ParameterSpec a{.name = fmt::format("{}{}", layer, kAdapterA),
                        .shape = {rank, in},
                        .init = Initializer::uniform(bound)};
  const ParameterSpec b{.name = fmt::format("{}{}", layer, kAdapterB), .shape = {out, rank}};
  if (spec.slice.is_whole()) {
    const ParamRef whole_a = declare(a);
    adapters_[weight.index] = {.a = whole_a, .b = declare(b), .scale = scale};
    return;
  }
  // All chunks read one factor; the other is cut like the weight.
  const bool cuts_rows = spec.slice.dim == CutDim::kRows;
  const ParamRef shared = declare(cuts_rows ? a : b);
  std::set<std::string> ends;  // of sums before the weight's
  const int num_weights = static_cast<int>(parameters_.size());
  for (int i = 0; i < num_weights; ++i) {
    const ParameterSpec other = parameters_[static_cast<std::size_t>(i)];
    if (whole_name(other.slice, other.name) == name) {
      const ParamRef cut = declare(slice_of(cuts_rows ? b : a, other.slice));
      adapters_[i] = {.a = cuts_rows ? shared : cut, .b = cuts_rows ? cut : shared, .scale = scale};
    } else if (i < weight.index && !other.slice.is_whole() && other.slice.dim == CutDim::kColumns) {
      ends.insert(whole_name(other.slice, other.name));
    }
  }
  declare_shared_parameters(static_cast<int>(ends.size()));
}

}  // namespace trireme
