#include "parallel/foresee/accumulation_choice.h"

#include <vector>

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

struct Tries {
  std::vector<bool> keep_gathered, accumulate_unsharded;
};

Tries tries_of(const EngineOptions& options, const AccumulationChoice& choice, int num_ranks) {
  Tries tries{.keep_gathered = values_of(choice.keep_gathered, has_parameters_to_keep(options, num_ranks)),
              .accumulate_unsharded =
                  values_of(choice.accumulate_unsharded, has_gradients_to_keep(options, num_ranks))};
  if (!choice.accumulate_unsharded && is_uneven(options, num_ranks)) tries.accumulate_unsharded = {true};
  return tries;
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

EngineOptions accumulating_most(EngineOptions options, const AccumulationChoice& choice, int num_ranks) {
  const Tries tries = tries_of(options, choice, num_ranks);
  options.keep_gathered = tries.keep_gathered.front();
  options.accumulate_unsharded = tries.accumulate_unsharded.front();
  return options;
}

EngineOptions choose_accumulation(const std::shared_ptr<const BlockList>& blocks, EngineOptions options,
                                  const AccumulationChoice& choice, const SampleSpec& sample, int num_ranks,
                                  std::int64_t limit_bytes) {
  const Tries tries = tries_of(options, choice, num_ranks);
  for (const bool keep_gathered : tries.keep_gathered) {
    for (const bool accumulate_unsharded : tries.accumulate_unsharded) {
      options.keep_gathered = keep_gathered;
      options.accumulate_unsharded = accumulate_unsharded;
      const bool is_last = keep_gathered == tries.keep_gathered.back() &&
                           accumulate_unsharded == tries.accumulate_unsharded.back();
      if (is_last || predict_within(limit_bytes, blocks, options, sample, num_ranks)) return options;
    }
  }
  return options;
}

}  // namespace trireme
