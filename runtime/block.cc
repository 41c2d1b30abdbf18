#include "runtime/block.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"

namespace trireme {

const Adapter* Block::adapter(ParamRef weight) const {
  const auto found = adapters_.find(weight.index);
  return found == adapters_.end() ? nullptr : &found->second;
}

void Block::add_adapter(ParamRef weight, std::int64_t rank, float scale) {
  const ParameterSpec& spec = parameters_.at(static_cast<std::size_t>(weight.index));
  const std::string name = full_name(spec);
  TRIREME_CHECK(spec.allows_fp8 && spec.shape.rank() == 2 && !adapters_.contains(weight.index),
                "parameter '{}' {} takes no adapter: only the weight of an inner linear layer does, and one",
                name, spec.shape.to_string());
  if (!spec.slice.is_whole()) {
    throw Error(ErrorCode::kUnsupported, "parameter '{}' is in tensor chunks, which have no adapters", name);
  }
  const std::int64_t out = spec.shape[0], in = spec.shape[1];
  TRIREME_CHECK(rank >= 1 && rank <= std::min(out, in),
                "an adapter of rank {} for '{}' {}: the rank must be from 1 to {}, the smaller of its dims",
                rank, name, spec.shape.to_string(), std::min(out, in));
  const std::string layer = layer_of_weight(spec.name);
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(in)));
  const ParamRef a = declare({.name = fmt::format("{}{}", layer, kAdapterA),
                              .shape = {rank, in},
                              .init = Initializer::uniform(bound)});
  const ParamRef b = declare({.name = fmt::format("{}{}", layer, kAdapterB), .shape = {out, rank}});
  adapters_[weight.index] = {.a = a, .b = b, .scale = scale};
}

}  // namespace trireme
