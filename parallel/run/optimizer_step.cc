#include "parallel/run/optimizer_step.h"

#include <algorithm>

namespace trireme {
namespace {

Tensor scalar(const Context& ctx) {
  return ctx.empty({}, DType::kFloat32, MemoryCategory::kOptimizer);
}

}  // namespace

OptimizerStep::OptimizerStep(const RankParts& parts, const Options& options)
    : parts_(parts),
      options_(options),
      sharding_(parts.params.sharding()),
      scalars_{.lr = parts.ctx.empty({static_cast<std::int64_t>(parts.layout.lr_scales.size())},
                                     DType::kFloat32, MemoryCategory::kOptimizer),
               .clip = scalar(parts.ctx),
               .step = options.scaler.updates(),
               .skip = options.scaler.skip()},
      grad_norm_(scalar(parts.ctx)) {
  std::vector<std::int64_t> blocks;  // per group, with padding; padding is zero and changes no sum
  std::int64_t total = 0;
  for (const ParamGroup& group : parts_.layout.groups) {
    blocks.push_back(group.frozen ? 0 : sharding_.padded(group.num_elems) / kNormBlock);
    total += blocks.back();
  }
  // If gradients are divided between ranks, each rank computes its own norms and needs the others' for the
  // exchange.
  const bool sharded = sharding_.ranks > 1 || parts_.stages.pipeline > 1 || parts_.tensor != nullptr;
  all_norm_partials_ = parts_.ctx.empty(
      {total}, DType::kFloat32, sharded ? MemoryCategory::kCommunication : MemoryCategory::kGradients);
  std::int64_t first = 0;
  for (const std::int64_t n : blocks) {
    norm_partials_.push_back(all_norm_partials_.slice(first, {n}));
    first += n;
  }
}

void OptimizerStep::set_learning_rate(double lr) {
  std::vector<float> scaled;
  for (const float scale : parts_.layout.lr_scales) {
    scaled.push_back(static_cast<float>(lr * static_cast<double>(scale)));
  }
  parts_.ctx.backend->copy_from_host(parts_.ctx.exec, scalars_.lr, scaled.data());
}

Tensor OptimizerStep::own_norms(std::size_t g) const {
  const std::int64_t blocks = norm_partials_[g].num_elems() / sharding_.ranks;
  return norm_partials_[g].slice(sharding_.rank * blocks, {blocks});
}

void OptimizerStep::compute_norms() {
  if (options_.verifier != nullptr) options_.verifier->before_updates();
  parts_.gradients.finish(parts_.ctx);
  for (std::size_t g = 0; g < norm_partials_.size(); ++g) {
    if (!trains(g)) continue;
    const Tensor gradient = parts_.gradients.gradient(static_cast<int>(g));
    parts_.ctx.run(SquaredNormBlocksArgs{.x = gradient, .partials = own_norms(g)});
  }
}

// With two levels: one action, because one number per norm block is too little data for two.
void OptimizerStep::gather_norms() {
  const DataAxis& axis = parts_.params.axis();
  const auto gather_each = [&](auto start) {
    std::vector<Work> gathers;
    for (std::size_t g = 0; g < norm_partials_.size(); ++g) {
      if (trains(g)) gathers.push_back(start(g));
    }
    for (Work& gather : gathers) gather.wait();
  };
  gather_each([&](std::size_t g) { return axis.gather(own_norms(g), norm_partials_[g]); });
  if (axis.is_hierarchical())
    gather_each([&](std::size_t g) { return axis.gather_in_host(norm_partials_[g]); });
}

// Each tensor rank packs its own norms, so one exchange serves all chunks of the stage. The first rank may
// have more, from biases that are added once.
void OptimizerStep::gather_chunk_norms() {
  const TensorPlace here = parts_.tensor_place();
  std::vector<std::int64_t> counts(static_cast<std::size_t>(here.places), 0);  // by place
  const auto for_each_chunk = [&](auto visit) {
    for (std::size_t g = 0; g < norm_partials_.size(); ++g) {
      const ParamGroup& group = parts_.layout.groups[g];
      const int unit = owner_unit(parts_.layout, static_cast<int>(g));
      if (group.chunk >= 0 && !group.frozen && parts_.stages.stage_of(unit) == parts_.stage()) {
        visit(norm_partials_[g], place_of(group, here.places));
      }
    }
  };
  for_each_chunk(
      [&](const Tensor& norms, int place) { counts[static_cast<std::size_t>(place)] += norms.num_elems(); });
  const std::int64_t count = *std::ranges::max_element(counts);
  if (count == 0) return;  // a stage without chunks
  const Context& ctx = parts_.ctx;
  const Tensor all = ctx.zeros({count * here.places}, DType::kFloat32, MemoryCategory::kCommunication);
  std::vector<std::int64_t> next;
  const auto copy_each = [&](auto copy) {
    next.assign(static_cast<std::size_t>(here.places), 0);
    for_each_chunk([&](const Tensor& norms, int place) {
      std::int64_t& at = next[static_cast<std::size_t>(place)];
      copy(norms, all.slice(place * count + at, {norms.num_elems()}), place);
      at += norms.num_elems();
    });
  };
  copy_each([&](const Tensor& norms, const Tensor& packed, int place) {
    if (place == here.place) ctx.backend->copy(ctx.exec, packed, norms);
  });
  parts_.groups.along(Axis::kTensor)->all_gather(all.slice(here.place * count, {count}), all).wait();
  copy_each([&](const Tensor& norms, const Tensor& packed, int place) {
    if (place != here.place) ctx.backend->copy(ctx.exec, norms, packed);
  });
}

// Every stage has filled in its own groups. Groups of neighbouring units are adjacent.
void OptimizerStep::broadcast_norms() {
  const auto owner = [&](std::size_t g) {
    return parts_.stages.stage_of(owner_unit(parts_.layout, static_cast<int>(g)));
  };
  std::vector<Work> works;
  std::int64_t first = 0;
  for (std::size_t g = 0; g < norm_partials_.size();) {
    const int stage = owner(g);
    std::int64_t count = 0;
    for (; g < norm_partials_.size() && owner(g) == stage; ++g) count += norm_partials_[g].num_elems();
    if (count == 0) continue;  // a stage that trains nothing
    works.push_back(
        parts_.groups.along(Axis::kPipeline)->broadcast(all_norm_partials_.slice(first, {count}), stage));
    first += count;
  }
  for (Work& work : works) work.wait();
}

void OptimizerStep::clip(const Tensor& losses, const Tensor& divisor) {
  parts_.ctx.run(ClipCoefficientArgs{.partials = all_norm_partials_,
                                     .norm = grad_norm_,
                                     .clip = scalars_.clip,
                                     .max_norm = options_.max_norm,
                                     .gradient_scale = options_.scaler.scale(),
                                     .divisor = divisor});
  if (leaves_out_ && leaves_out_(losses)) {
    options_.scaler.leave_out(parts_.ctx);
  } else {
    options_.scaler.update(parts_.ctx, grad_norm_);
  }
  if (observer_) show_gradients();
}

void OptimizerStep::show_gradients() const {
  for (std::size_t g = 0; g < parts_.layout.groups.size(); ++g) {
    const auto group = static_cast<int>(g);
    if (!trains(g)) continue;
    const Tensor flat = parts_.params.whole(group, parts_.gradients.gradient(group));
    for (const ParamSlot& slot : parts_.layout.groups[g].slots)
      observer_(slot.name, flat.slice(slot.offset, slot.shape));
  }
}

void OptimizerStep::update(int unit) {
  for (const int group : parts_.layout.unit_groups[static_cast<std::size_t>(unit)]) {
    if (owner_unit(parts_.layout, group) != unit || !trains(static_cast<std::size_t>(group))) continue;
    if (options_.verifier != nullptr) options_.verifier->before_update(group);
    parts_.params.update(group, options_.optimizer, scalars_, parts_.gradients.gradient(group));
    if (options_.verifier != nullptr) options_.verifier->after_update(group);
    parts_.gradients.drop(group);
  }
}

void OptimizerStep::swap_averages(int unit) {
  for (const int group : parts_.layout.unit_groups[static_cast<std::size_t>(unit)]) {
    if (owner_unit(parts_.layout, group) == unit && trains(static_cast<std::size_t>(group))) {
      parts_.params.swap_averages(group);
    }
  }
}

void OptimizerStep::for_updated_groups(int unit, void (ParamStore::*gather)(int group)) {
  for (const int group : parts_.layout.unit_groups[static_cast<std::size_t>(unit)]) {
    const bool frozen = parts_.layout.groups[static_cast<std::size_t>(group)].frozen;
    if (owner_unit(parts_.layout, group) == unit && parts_.params.holds(group) && !frozen) {
      (parts_.params.*gather)(group);
    }
  }
}

void OptimizerStep::gather_updated(int unit) {
  for_updated_groups(unit, &ParamStore::gather_updated);
}

void OptimizerStep::gather_updated_in_host(int unit) {
  for_updated_groups(unit, &ParamStore::gather_in_host);
}

}  // namespace trireme
