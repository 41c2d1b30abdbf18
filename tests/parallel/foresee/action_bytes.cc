#include "tests/parallel/foresee/action_bytes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "parallel/comm/communicator.h"
#include "parallel/layout/boundary_shapes.h"
#include "parallel/layout/stage_groups.h"
#include "parallel/layout/tensor_place.h"
#include "parallel/reduce/reduction_tree.h"

namespace trireme {
namespace {

using enum ActionKind;

constexpr std::int64_t kFloatBytes = sizeof(float);

class Pricing {
 public:
  explicit Pricing(const TrafficFacts& facts)
      : facts_(facts),
        options_(facts.options),
        layout_(facts.layout),
        stages_(facts.plan.stages),
        data_(facts.plan.mesh.size(Axis::kData)),
        tensor_(facts.plan.mesh.size(Axis::kTensor)),
        stage_(facts.plan.mesh.coord(facts.rank)[Axis::kPipeline]),
        per_host_(facts.plan.data_ranks_per_host),
        exchange_{data_, 0},
        sharded_(sharded_by(options_.layout.zero)),
        sharding_(sharded_.optimizer ? exchange_ : Sharding{}),
        holdings_(holdings_of_stage(layout_, stages_, stage_)),
        users_(layout_.groups.size(), 0),
        each_(data_ > 1 && sharded_.gradients && !options_.layout.accumulate_unsharded) {}

  std::map<ActionKind, std::int64_t> run() {
    std::map<ActionKind, std::int64_t> sent;
    for (const Action& action : facts_.plan.ranks[static_cast<std::size_t>(facts_.rank)].actions) {
      if (const std::int64_t bytes = sent_by(action); bytes > 0) sent[action.kind] += bytes;
    }
    return sent;
  }

 private:
  std::int64_t sent_by(const Action& action) {
    switch (action.kind) {
      case kGather:
        return gather(action.unit);
      case kGatherInHost:
        return gather_in_host(action.unit);
      case kRelease:
        for (const int g : groups_of(action.unit)) --users_[static_cast<std::size_t>(g)];
        return 0;
      case kSumChunks:
        return options_.layout.sequence ? gather_of_sums(action.unit) : sum_of_chunks(action.unit);
      case kReduceScatterSequence:
        return sent_bytes_of(CallKind::kReduceScatter, stream_elems(action.unit) * kFloatBytes, tensor_);
      case kGatherSequence:
        return sent_bytes_of(CallKind::kAllGather, stream_elems(action.unit) * working_bytes(), tensor_);
      case kGatherChunkNorms:
        return gather_chunk_norms();
      case kReduceGrad:
        return reduce_gradient(action.unit);
      case kReduceGradInHost:
        return reduce_gradient_in_host(action.unit);
      case kSendActivation:
        return boundary(action.unit, /*gradients=*/false);
      case kSendGradient:
        return boundary(action.unit - 1, /*gradients=*/true);
      case kSendTiedGradient:
      case kSendTiedParameters:
        return tied(action);
      case kReduceLoss:
        return sent_bytes_of(CallKind::kAllGather, kFloatBytes * per_rank() * facts_.plan.mesh.num_ranks(),
                             facts_.plan.mesh.num_ranks());
      case kGatherGrad:
        return gather_grad(action.unit, [this](std::int64_t bytes) { return gathered(bytes); });
      case kGatherGradInHost:
        return gather_grad(action.unit, [this](std::int64_t bytes) { return gathered_in_host(bytes); });
      case kGatherNorms:
        return gather_norms();
      case kBroadcastNorms:
        return broadcast_norms();
      case kGatherUpdated:
        return gather_updated(action.unit, [this](std::int64_t bytes) { return gathered(bytes); });
      case kGatherUpdatedInHost:
        return gather_updated(action.unit, [this](std::int64_t bytes) { return gathered_in_host(bytes); });
      case kReduceStatistics:
        return statistics();
      default:
        return 0;
    }
  }

  const std::vector<int>& groups_of(int unit) const {
    return layout_.unit_groups[static_cast<std::size_t>(unit)];
  }
  const GradBucket& bucket(int b) const { return layout_.buckets[static_cast<std::size_t>(b)]; }
  std::int64_t elems(int group) const { return layout_.groups[static_cast<std::size_t>(group)].num_elems; }
  std::int64_t per_rank() const {
    return facts_.plan.ranks[static_cast<std::size_t>(facts_.rank)].micro_batches;
  }
  std::int64_t working_bytes() const { return size_bytes(options_.precision.compute_dtype()); }
  std::int64_t grad_bytes() const { return size_bytes(options_.precision.grad_dtype); }
  // With two levels, the share of a buffer that crosses hosts from one rank: 1/R.
  std::int64_t along_data(CallKind kind, std::int64_t bytes) const {
    return sent_bytes_of(kind, bytes / per_host_, data_ / per_host_);
  }
  std::int64_t gathered(std::int64_t bytes) const { return along_data(CallKind::kAllGather, bytes); }
  std::int64_t gathered_in_host(std::int64_t bytes) const {
    return sent_bytes_of(CallKind::kAllGather, bytes, per_host_);
  }
  std::int64_t whole_bytes(int group) const { return exchange_.padded(elems(group)) * working_bytes(); }
  Holding holding(int group) const { return holdings_[static_cast<std::size_t>(group)]; }

  // A group that an earlier user keeps is already resident.
  std::int64_t gather(int unit) {
    std::int64_t sent = 0;
    for (const int g : groups_of(unit)) {
      if (users_[static_cast<std::size_t>(g)]++ > 0) continue;
      sent += gathered(whole_bytes(g));
      owes_in_host_.insert(g);
    }
    return sent;
  }

  std::int64_t gather_in_host(int unit) {
    std::int64_t sent = 0;
    for (const int g : groups_of(unit)) {
      if (owes_in_host_.erase(g) > 0) sent += gathered_in_host(whole_bytes(g));
    }
    return sent;
  }

  template <class Bytes>
  std::int64_t gather_updated(int unit, Bytes bytes_of) const {
    std::int64_t sent = 0;
    for (int g = 0; g < static_cast<int>(layout_.groups.size()); ++g) {
      if (owner_unit(layout_, g) == unit && holding(g) != Holding::kNothing) sent += bytes_of(whole_bytes(g));
    }
    return sent;
  }

  // Partial sums of a rank that reduces once per step. Every rank sends as many as the rank with the most.
  std::int64_t rounds() const {
    if (each_ || per_host_ > 1) return 1;
    std::size_t most = 0;
    for (int rank = 0; rank < data_; ++rank) {
      most = std::max(most, partial_sums(rank * per_rank(), per_rank()).size());
    }
    return static_cast<std::int64_t>(most);
  }

  std::int64_t reduce_gradient(int unit) const {
    std::int64_t sent = 0;
    for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
      if (bucket(b).unit != unit) continue;
      const std::int64_t bytes = exchange_.padded(elems(bucket(b).group)) * grad_bytes();
      if (options_.reduction == Reduction::kFast) {
        sent += along_data(sharded_.optimizer ? CallKind::kReduceScatter : CallKind::kAllReduce, bytes);
      } else {
        sent += rounds() * along_data(CallKind::kAllToAll, bytes);
      }
    }
    return sent;
  }

  std::int64_t reduce_gradient_in_host(int unit) const {
    std::int64_t sent = 0;
    for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
      if (bucket(b).unit != unit) continue;
      const bool fast = options_.reduction == Reduction::kFast;
      sent += sent_bytes_of(fast ? CallKind::kReduceScatter : CallKind::kAllToAll,
                            exchange_.padded(elems(bucket(b).group)) * grad_bytes(), per_host_);
    }
    return sent;
  }

  // Further uses of a group were added to its sum earlier. In the library's sum they stay whole until then.
  template <class Bytes>
  std::int64_t gather_grad(int unit, Bytes bytes_of) const {
    std::int64_t sent = 0;
    for (const int b : layout_.unit_buckets[static_cast<std::size_t>(unit)]) {
      const bool added = bucket(b).use > 0 && options_.reduction == Reduction::kCanonical;
      if (bucket(b).unit == unit && !added) {
        sent += bytes_of(exchange_.padded(elems(bucket(b).group)) * grad_bytes());
      }
    }
    return sent;
  }

  std::int64_t boundary(int unit, bool gradients) {
    if (!shapes_) {
      shapes_.emplace(facts_.blocks, options_.precision, *options_.sample,
                      options_.layout.sequence ? tensor_ : 1);
    }
    std::int64_t sent = 0;
    for (const TensorSpec& spec : shapes_->of(unit, {.num_samples = options_.micro_batch})) {
      const bool differentiable = spec.dtype != DType::kInt32 && spec.dtype != DType::kUInt8;
      if (!gradients || differentiable) sent += spec.shape.num_elems() * size_bytes(spec.dtype);
    }
    return sent;
  }

  std::int64_t tied(const Action& action) const {
    const bool of_gradient = action.kind == kSendTiedGradient;
    const int peer = facts_.plan.mesh.coord(action.peer)[Axis::kPipeline];
    const bool sums_pieces = sharded_.optimizer || options_.reduction == Reduction::kCanonical;
    std::set<int> groups;
    std::int64_t sent = 0;
    for (const TiedUnits& tie : facts_.plan.ties) {
      const int from = of_gradient ? tie.user : tie.owner, to = of_gradient ? tie.owner : tie.user;
      if (from != action.unit || stages_.stage_of(from) != stage_ || stages_.stage_of(to) != peer) continue;
      for (const int b : tied_buckets(layout_, tie)) {
        const int group = bucket(b).group;
        const Sharding& cut = of_gradient && sums_pieces ? exchange_ : sharding_;
        if (!of_gradient && !groups.insert(group).second) continue;
        sent += cut.piece(elems(group)) * (of_gradient ? grad_bytes() : working_bytes());
      }
    }
    return sent;
  }

  std::int64_t norm_bytes(int group) const {
    return sharding_.padded(elems(group)) / kNormBlock * kFloatBytes;
  }

  std::int64_t gather_norms() const {
    std::int64_t sent = 0;
    for (int g = 0; g < static_cast<int>(layout_.groups.size()); ++g) {
      if (holding(g) != Holding::kOwned) continue;
      sent += gathered(norm_bytes(g));
      if (per_host_ > 1) sent += gathered_in_host(norm_bytes(g));
    }
    return sent;
  }

  // Neighbouring groups of a stage travel in one message.
  std::int64_t broadcast_norms() const {
    const auto owner = [&](int g) { return stages_.stage_of(owner_unit(layout_, g)); };
    const int groups = static_cast<int>(layout_.groups.size());
    std::int64_t sent = 0;
    for (int g = 0; g < groups;) {
      const int stage = owner(g);
      std::int64_t run = 0;
      for (; g < groups && owner(g) == stage; ++g) run += norm_bytes(g);
      sent += sent_bytes_of(CallKind::kBroadcast, run, facts_.plan.mesh.size(Axis::kPipeline));
    }
    return sent;
  }

  // The residual stream before the last unit, or after any other unit.
  std::int64_t stream_elems(int unit) const {
    const Shape& tokens = options_.sample->input;
    const auto last = static_cast<int>(facts_.blocks.size()) - 1;
    const std::vector<ParameterSpec>& specs =
        facts_.blocks[static_cast<std::size_t>(std::min(std::max(unit, 1), last - 1))]->parameters();
    return options_.micro_batch * tokens.num_elems() * specs.front().shape[0];  // the first is a norm's gain
  }

  // If the sequence is shared, tensor ranks gather two kinds of sums: for a layer, and for the head in
  // backward, the sums of a norm's gain and bias; for a head in chunks in forward, three numbers per token.
  std::int64_t gather_of_sums(int unit) {
    const bool is_head = unit + 1 == static_cast<int>(facts_.blocks.size());
    const std::int64_t tokens = options_.micro_batch * options_.sample->input.num_elems();
    const std::int64_t width = stream_elems(unit) / tokens;
    const bool in_chunks = std::ranges::count(facts_.plan.tensor_calls.back().forward, TensorCall::kSum) > 0;
    const bool of_loss = is_head && in_chunks && !std::exchange(in_backward_, !in_backward_);
    return sent_bytes_of(CallKind::kAllGather, tensor_ * (of_loss ? 3 * tokens : 2 * width) * kFloatBytes,
                         tensor_);
  }

  // fp32, with the shape of the unit's output: an all-reduce.
  std::int64_t sum_of_chunks(int unit) {
    if (!shapes_) shapes_.emplace(facts_.blocks, options_.precision, *options_.sample);
    const auto specs = shapes_->of(unit, {.num_samples = options_.micro_batch});
    return sent_bytes_of(CallKind::kAllReduce, specs.at(0).shape.num_elems() * kFloatBytes, tensor_);
  }

  // Bytes of the tensor rank with the most.
  std::int64_t gather_chunk_norms() const {
    std::vector<std::int64_t> bytes(static_cast<std::size_t>(tensor_), 0);
    for (int g = 0; g < static_cast<int>(layout_.groups.size()); ++g) {
      const ParamGroup& group = layout_.groups[static_cast<std::size_t>(g)];
      if (group.chunk < 0 || stages_.stage_of(owner_unit(layout_, g)) != stage_) continue;
      bytes[static_cast<std::size_t>(place_of(group, tensor_))] += norm_bytes(g);
    }
    return sent_bytes_of(CallKind::kAllGather, tensor_ * *std::ranges::max_element(bytes), tensor_);
  }

  // Samples of all micro-batches; each statistic begins at a cache line.
  std::int64_t statistics() const {
    constexpr std::int64_t kAlign = 16;
    std::int64_t owned = 0;
    for (std::size_t unit = 0; unit < facts_.blocks.size(); ++unit) {
      if (stages_.stage_of(static_cast<int>(unit)) != stage_) continue;
      for (const StatisticSpec& spec : facts_.blocks[unit]->statistics()) {
        owned += (spec.shape.num_elems() + kAlign - 1) / kAlign * kAlign;
      }
    }
    return sent_bytes_of(CallKind::kAllGather, data_ * per_rank() * owned * kFloatBytes, data_);
  }

  const TrafficFacts& facts_;
  const EngineOptions& options_;
  const ModelLayout& layout_;
  const StageMap& stages_;
  const int data_, tensor_, stage_, per_host_;
  const Sharding exchange_;  // for sums in flight
  const ShardedState sharded_;
  const Sharding sharding_;  // for masters
  const std::vector<Holding> holdings_;
  std::vector<int> users_;  // by group, while it is gathered
  std::set<int> owes_in_host_;
  const bool each_;
  bool in_backward_ = false;  // for the head, whose forward and backward make one sum each
  std::optional<BoundaryShapes> shapes_;
};

}  // namespace

std::map<ActionKind, std::int64_t> sent_by_kind(const TrafficFacts& facts) {
  return Pricing(facts).run();
}

}  // namespace trireme
