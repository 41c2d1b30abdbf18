// What is done to parameters by their names: which are frozen, and factors of learning rate and weight decay.
//
// Patterns are compared with full names ("blocks.0.attention.qkv.weight"), of a parameter in tensor chunks
// with that of the whole: `*` stands for any characters, `?` for one.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/block.h"

namespace trireme {

bool matches_pattern(std::string_view pattern, std::string_view name);

struct ParameterRules {
  std::vector<std::string> frozen;            // patterns: no gradient, no optimizer state, no update
  std::vector<std::string> trained;           // patterns: unless there are none, what matches none is frozen
  std::map<std::string, double> lr_scale;     // pattern -> factor of the learning rate, above 0
  std::map<std::string, double> decay_scale;  // pattern -> factor of weight decay, at least 0
  bool separates_matrices = false;            // see [Note: groups of matrices] in model_layout.h

  bool empty() const { return !freezes() && lr_scale.empty() && decay_scale.empty(); }
  bool freezes() const { return !frozen.empty() || !trained.empty(); }
};

/// Of a parameter's name, in tensor chunks that of the whole.
bool is_frozen(const ParameterRules& rules, std::string_view name);

/// The rule of one parameter. Of several patterns that match, the longest counts, the last of equals in
/// alphabetical order.
struct ParameterRule {
  bool frozen = false;
  float lr_scale = 1.0f;
  float decay = 1.0f;  // factor of weight decay; without a pattern 1 for a spec that decays, else 0
};
ParameterRule rule_of(const ParameterRules& rules, const ParameterSpec& spec, std::string_view full_name);

/// True for a weight of two dimensions of a block between the first and the last, which have the embeddings
/// and the head, that is not tied: what an optimizer that updates whole matrices takes.
bool is_hidden_matrix(const BlockList& blocks, std::size_t block, const ParameterSpec& spec);

/// Full names of all parameters, those in tensor chunks and those that are tied once each.
std::vector<std::string> parameter_names(const BlockList& blocks);

/// The first pattern that is no name's; empty: each has one.
std::string unmatched_pattern(std::span<const std::string> patterns, std::span<const std::string> names);

}  // namespace trireme
