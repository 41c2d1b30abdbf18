#include "launcher/job/parameter_patterns.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "launcher/config/nearest_name.h"
#include "launcher/job/lora.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

// The smallest edit distance of `text` to consecutive parts of a dotted name, since patterns often give only
// part of a name.
int distance_to_parts(std::string_view text, std::string_view name) {
  int least = std::numeric_limits<int>::max();
  for (std::size_t first = 0; first <= name.size();) {
    for (std::size_t end = name.find('.', first);; end = name.find('.', end + 1)) {
      least = std::min(least, edit_distance(text, name.substr(first, end - first)));
      if (end == std::string_view::npos) break;
    }
    const std::size_t dot = name.find('.', first);
    if (dot == std::string_view::npos) break;
    first = dot + 1;
  }
  return least;
}

}  // namespace

std::string nearest_parameter(const std::string& pattern, const std::vector<std::string>& names) {
  std::string text = pattern;
  std::erase_if(text, [](char c) { return c == '*' || c == '?'; });
  if (text.ends_with('.')) text.pop_back();
  return *std::ranges::min_element(names, {},
                                   [&](const std::string& name) { return distance_to_parts(text, name); });
}

namespace {

std::string listed_patterns(const std::vector<std::string>& patterns) {
  return patterns.empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(patterns, "\", \""));
}

void check_pattern(const std::string& key, const std::string& pattern,
                   const std::vector<std::string>& names) {
  if (unmatched_pattern({&pattern, 1}, names).empty()) return;
  throw Error(ErrorCode::kInvalidInput,
              "{}: \"{}\" matches none of the model's {} parameters; the nearest is '{}' (`*` stands for any "
              "characters)",
              key, pattern, names.size(), nearest_parameter(pattern, names));
}

}  // namespace

ParameterRules parameter_rules(const JobConfig& config) {
  return {.frozen = config.train.freeze,
          .trained = trained_with_adapters(config.model),
          .lr_scale = config.optimizer.lr_scale,
          .decay_scale = config.optimizer.decay_scale,
          .quantizes = config.model.has_adapters() && config.model.lora_quantize == FrozenWeights::kNf4};
}

void check_patterns(const JobConfig& config, const BlockList& blocks) {
  const ParameterRules rules = parameter_rules(config);
  const std::vector<std::string> names = parameter_names(blocks);
  for (const std::string& pattern : rules.frozen) check_pattern("train.freeze", pattern, names);
  for (const auto& [pattern, scale] : rules.lr_scale) check_pattern("optimizer.lr_scale", pattern, names);
  for (const auto& [pattern, scale] : rules.decay_scale)
    check_pattern("optimizer.decay_scale", pattern, names);
  const bool trains =
      std::ranges::any_of(names, [&](const std::string& name) { return !is_frozen(rules, name); });
  TRIREME_CHECK(trains, "train.freeze = {} leaves none of the model's {} parameters to train",
                listed_patterns(rules.frozen), names.size());
}

void check_same_training(const JobConfig& before, const JobConfig& now, const BlockList& blocks,
                         const std::string& where) {
  const auto lora = [](ModelSection model) {
    if (!model.has_adapters()) return std::string("none");
    std::ranges::sort(model.lora_targets);
    return fmt::format("{{ rank = {}, alpha = {}{}{}, targets = {} }}", model.lora_rank, model.lora_alpha,
                       model.lora_rank_stabilized ? ", rank_stabilized = true" : "",
                       model.lora_quantize == FrozenWeights::kNf4 ? ", quantize = \"nf4\"" : "",
                       listed_patterns(model.lora_targets));
  };
  TRIREME_CHECK(
      lora(before.model) == lora(now.model),
      "{} was made with train.lora = {}, and the job has {}: a run goes on with its own adapters. Set it "
      "back, or begin anew with model.init_from",
      where, lora(before.model), lora(now.model));
  const ParameterRules old_rules = parameter_rules(before), rules = parameter_rules(now);
  for (const std::string& name : parameter_names(blocks)) {
    TRIREME_CHECK(
        is_frozen(old_rules, name) == is_frozen(rules, name),
        "{} was made with train.freeze = {}, and the job has {}, in which '{}' is {}: a run goes on with "
        "the state of what it trains. Set it back, or begin anew with model.init_from",
        where, listed_patterns(before.train.freeze), listed_patterns(now.train.freeze), name,
        is_frozen(rules, name) ? "frozen" : "trained");
  }
}

void check_matrices(const JobConfig& config, const BlockList& blocks) {
  const ParameterRules rules = parameter_rules(config);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (const ParameterSpec& spec : blocks[b]->parameters()) {
      const bool frozen = rule_of(rules, spec, blocks[b]->full_name(spec)).frozen;
      if (!frozen && is_hidden_matrix(blocks, b, spec)) return;
    }
  }
  throw Error(ErrorCode::kInvalidInput,
              "optimizer.name = \"muon\" updates weights of two dimensions between the first block and the "
              "last, and {} has none to train: take \"adamw\" or \"sgd\"",
              config.model.name);
}

}  // namespace trireme
