#include "parallel/foresee/accumulation_choice.h"

#include "parallel/foresee/predict.h"
#include "parallel/mesh/mesh_groups.h"

namespace trireme {
namespace {

bool accumulates(const EngineOptions& options, int num_ranks) {
  const int data_ranks = options.layout.data_ranks(num_ranks);
  return data_ranks > 1 && options.global_batch > options.micro_batch * data_ranks;
}

// The values to try; the one that sends less comes first.
std::vector<bool> values_of(bool is_open, bool given, bool makes_a_difference) {
  if (!is_open) return {given};
  return makes_a_difference ? std::vector{true, false} : std::vector{false};
}

}  // namespace

bool has_gradients_to_keep(const EngineOptions& options, int num_ranks) {
  return options.layout.zero >= ZeroStage::kGradients && accumulates(options, num_ranks);
}

bool has_parameters_to_keep(const EngineOptions& options, int num_ranks) {
  return options.layout.zero == ZeroStage::kParameters && accumulates(options, num_ranks);
}

bool is_uneven(const EngineOptions& options, int num_ranks) {
  const int data_ranks = options.layout.data_ranks(num_ranks);
  return options.global_batch % (options.micro_batch * data_ranks) != 0;
}

std::vector<EngineOptions> accumulation_choices(const EngineOptions& options, const OpenFields& open,
                                                int num_ranks) {
  const bool is_open = open.contains("accumulate_unsharded");
  std::vector<bool> unsharded =
      values_of(is_open, options.layout.accumulate_unsharded, has_gradients_to_keep(options, num_ranks));
  if (is_open && is_uneven(options, num_ranks)) unsharded = {true};
  std::vector<EngineOptions> choices;
  for (const bool keeps : values_of(open.contains("keep_gathered"), options.layout.keep_gathered,
                                    has_parameters_to_keep(options, num_ranks))) {
    for (const bool accumulates_unsharded : unsharded) {
      EngineOptions& one = choices.emplace_back(options);
      one.layout.keep_gathered = keeps;
      one.layout.accumulate_unsharded = accumulates_unsharded;
    }
  }
  return choices;
}

EngineOptions choose_accumulation(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                                  const OpenFields& open, const SampleSpec& sample, int num_ranks,
                                  std::int64_t limit_bytes) {
  std::vector<EngineOptions> choices = accumulation_choices(options, open, num_ranks);
  for (std::size_t i = 0; i + 1 < choices.size(); ++i) {
    if (predict_within(limit_bytes, blocks, choices[i], sample, num_ranks)) return std::move(choices[i]);
  }
  return std::move(choices.back());
}

}  // namespace trireme
