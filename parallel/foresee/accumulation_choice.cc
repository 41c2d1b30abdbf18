#include "parallel/foresee/accumulation_choice.h"

#include "parallel/foresee/predict.h"
#include "parallel/mesh/mesh_groups.h"

namespace trireme {
namespace {

bool accumulates(const EngineOptions& options, int num_ranks) {
  const int data_ranks = mesh_of(num_ranks, options.pipeline.stages, options.tensor).size(Axis::kData);
  return data_ranks > 1 && options.global_batch > options.micro_batch * data_ranks;
}

// The values to try, the one that sends less first.
std::vector<bool> values_of(std::optional<bool> settled, bool makes_a_difference) {
  if (settled) return {*settled};
  return makes_a_difference ? std::vector{true, false} : std::vector{false};
}

}  // namespace

bool has_gradients_to_keep(const EngineOptions& options, int num_ranks) {
  return options.zero >= ZeroStage::kGradients && accumulates(options, num_ranks);
}

bool has_parameters_to_keep(const EngineOptions& options, int num_ranks) {
  return options.zero == ZeroStage::kParameters && accumulates(options, num_ranks);
}

bool is_uneven(const EngineOptions& options, int num_ranks) {
  const int data_ranks = mesh_of(num_ranks, options.pipeline.stages, options.tensor).size(Axis::kData);
  return options.global_batch % (options.micro_batch * data_ranks) != 0;
}

std::vector<EngineOptions> accumulation_choices(const EngineOptions& options,
                                                const AccumulationChoice& choice, int num_ranks) {
  std::vector<bool> unsharded =
      values_of(choice.accumulate_unsharded, has_gradients_to_keep(options, num_ranks));
  if (!choice.accumulate_unsharded && is_uneven(options, num_ranks)) unsharded = {true};
  std::vector<EngineOptions> choices;
  for (const bool keep_gathered :
       values_of(choice.keep_gathered, has_parameters_to_keep(options, num_ranks))) {
    for (const bool accumulate_unsharded : unsharded) {
      EngineOptions& one = choices.emplace_back(options);
      one.keep_gathered = keep_gathered;
      one.accumulate_unsharded = accumulate_unsharded;
    }
  }
  return choices;
}

EngineOptions choose_accumulation(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                                  const AccumulationChoice& choice, const SampleSpec& sample, int num_ranks,
                                  std::int64_t limit_bytes) {
  std::vector<EngineOptions> choices = accumulation_choices(options, choice, num_ranks);
  for (std::size_t i = 0; i + 1 < choices.size(); ++i) {
    if (predict_within(limit_bytes, blocks, choices[i], sample, num_ranks)) return std::move(choices[i]);
  }
  return std::move(choices.back());
}

}  // namespace trireme
