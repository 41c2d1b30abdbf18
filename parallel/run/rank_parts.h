// A rank's part of the model, its state and its groups, with which it plays plans. An Engine owns them.
#pragma once

#include "parallel/layout/boundary_shapes.h"
#include "parallel/layout/param_store.h"
#include "parallel/layout/statistic_store.h"
#include "parallel/layout/tensor_place.h"
#include "parallel/mesh/mesh_groups.h"
#include "parallel/reduce/grad_accumulator.h"
#include "parallel/run/tensor_exchange.h"
#include "parallel/watch/watchdog.h"
#include "runtime/tape.h"

namespace trireme {

struct RankParts {
  Context& ctx;
  const BlockList& blocks;
  const ModelLayout& layout;
  const StageMap& stages;
  const MeshGroups& groups;
  ParamStore& params;
  StatisticStore& statistics;
  GradAccumulator& gradients;
  BoundaryShapes* shapes;  // null: one stage
  TensorExchange* tensor;  // null: one tensor rank
  Watchdog* watchdog;      // null: no watchdog
  Recompute recompute;     // mode of every tape

  int data_rank() const { return groups.coord()[Axis::kData]; }
  int stage() const { return groups.coord()[Axis::kPipeline]; }
  TensorPlace tensor_place() const {
    return {.places = groups.mesh.size(Axis::kTensor), .place = groups.coord()[Axis::kTensor]};
  }
};

/// True if the last block returns a loss and a count: see [Note: counted losses].
inline bool counts_loss_terms(const BlockList& blocks) {
  return !blocks.empty() && blocks.back()->counts_loss_terms();
}

/// A unit's parameters, as its block uses them; `gradients` null: without gradients.
class UnitParameters final : public ParameterResolver {
 public:
  UnitParameters(const RankParts& parts, int unit, GradAccumulator* gradients)
      : block_(*parts.blocks[static_cast<std::size_t>(unit)]),
        layout_(parts.layout),
        params_(parts.params),
        uses_(parts.layout.uses[static_cast<std::size_t>(unit)]),
        gradients_(gradients) {}

  Tensor value(ParamRef ref) override { return params_.value(use(ref)); }
  float center(ParamRef ref) const override { return params_.center(use(ref)); }
  GradientTarget gradient(ParamRef ref) override {
    return gradients_ != nullptr ? gradients_->target(use(ref)) : GradientTarget{};
  }
  bool is_trained(ParamRef ref) const override {
    return !layout_.groups[static_cast<std::size_t>(use(ref).group)].frozen;
  }
  const Adapter* adapter(ParamRef weight) const override { return block_.adapter(weight); }

 private:
  const ParamUse& use(ParamRef ref) const { return uses_.at(static_cast<std::size_t>(ref.index)); }

  const Block& block_;
  const ModelLayout& layout_;
  ParamStore& params_;
  const std::vector<ParamUse>& uses_;
  GradAccumulator* gradients_;
};

}  // namespace trireme
