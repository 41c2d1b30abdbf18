// Models with low-rank adapters, for tests that train them without a job file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "parallel/layout/parameter_rules.h"
#include "runtime/block.h"

namespace trireme::testing {

/// `blocks` with adapters of rank 3 of the inner linear layers with `part` in their names.
inline BlockList adapted(BlockList blocks, const std::string& part = "") {
  for (const auto& block : blocks) {
    const std::vector<ParameterSpec> specs = block->parameters();
    for (int i = 0; i < static_cast<int>(specs.size()); ++i) {
      const ParameterSpec& spec = specs[static_cast<std::size_t>(i)];
      const bool has_part = spec.name.find(part) != std::string::npos;
      if (spec.allows_fp8 && spec.slice.chunk <= 0 && has_part) block->add_adapter({i}, 3, 0.75f);
    }
  }
  return blocks;
}

/// Trains adapters alone; `quantizes` stores the frozen weights of linear layers in four bits.
inline ParameterRules adapter_rules(bool quantizes = false) {
  ParameterRules rules;
  rules.trained = {"*.lora_?.weight"};
  rules.quantizes = quantizes;
  return rules;
}

}  // namespace trireme::testing
