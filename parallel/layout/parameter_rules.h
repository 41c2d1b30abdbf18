// Rules for parameters by name: which are frozen, and factors of learning rate and weight decay.
//
// Patterns match full names ("blocks.0.attention.qkv.weight"); a parameter in tensor chunks has the name of
// the whole. `*` matches any characters, `?` matches one.
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
  std::vector<std::string> frozen;   // patterns: no gradient, no optimizer state, no update
  std::vector<std::string> trained;  // patterns: if there are any, parameters that match none are frozen
  std::map<std::string, double> lr_scale;     // pattern -> factor of the learning rate, above 0
  std::map<std::string, double> decay_scale;  // pattern -> factor of weight decay, at least 0
  bool separates_matrices = false;            // see [Note: groups of matrices] in model_layout.h
  bool quantizes = false;                     // see [Note: quantized groups] in model_layout.h

  bool empty() const { return !freezes() && lr_scale.empty() && decay_scale.empty(); }
  bool freezes() const { return !frozen.empty() || !trained.empty(); }
};

/// `name`: full name; for tensor chunks, the name of the whole parameter.
bool is_frozen(const ParameterRules& rules, std::string_view name);

/// The rule of one parameter. The longest matching pattern applies; among equally long ones, the last in
/// alphabetical order.
struct ParameterRule {
  bool frozen = false;
  float lr_scale = 1.0f;
  float decay = 1.0f;  // factor of weight decay; without a pattern, 1 for a spec that decays, else 0
};
ParameterRule rule_of(const ParameterRules& rules, const ParameterSpec& spec, std::string_view full_name);

/// True for an untied two-dimensional weight of a block between the first and the last (embeddings and head).
/// An optimizer that updates whole matrices takes these.
bool is_hidden_matrix(const BlockList& blocks, std::size_t block, const ParameterSpec& spec);

/// Full names of all parameters. Tied parameters, and all chunks of one parameter, appear once.
std::vector<std::string> parameter_names(const BlockList& blocks);

/// The first pattern that matches no name; empty if each matches one.
std::string unmatched_pattern(std::span<const std::string> patterns, std::span<const std::string> names);

}  // namespace trireme
