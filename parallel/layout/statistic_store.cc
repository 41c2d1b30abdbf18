#include "parallel/layout/statistic_store.h"

#include <algorithm>
#include <set>

#include "runtime/base/error.h"

namespace trireme {
namespace {

// Statistics begin at whole cache lines.
constexpr std::int64_t kAlignElems = 16;

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

}  // namespace

StatisticStore::StatisticStore(const Context& ctx, const BlockList& blocks, const BatchLayout& batch,
                               const MeshGroups& groups, const StageMap& stages)
    : ctx_(ctx), batch_(batch), groups_(groups) {
  lay_out(blocks, stages);
  if (owned_elems_ == 0) return;
  const MemoryHolderScope holder(*ctx_.allocator, "running statistics");
  values_ = ctx_.zeros({round_up(owned_elems_, kNormBlock)}, DType::kFloat32, MemoryCategory::kParameters);
  samples_ = ctx_.zeros({batch_.per_rank(), owned_elems_}, DType::kFloat32, MemoryCategory::kCommunication);
  fill(blocks);
}

void StatisticStore::lay_out(const BlockList& blocks, const StageMap& stages) {
  std::set<std::string> names;
  for (std::size_t unit = 0; unit < blocks.size(); ++unit) {
    const int stage = stages.stage_of(static_cast<int>(unit));
    first_of_unit_.push_back(entries_.size());
    for (const StatisticSpec& spec : blocks[unit]->statistics()) {
      const std::string name = blocks[unit]->full_name(spec);
      TRIREME_CHECK(names.insert(name).second, "two statistics are called '{}'", name);
      Entry& entry = entries_.emplace_back(Entry{.name = name, .shape = spec.shape, .offset = num_elems_});
      num_elems_ += round_up(spec.shape.num_elems(), kAlignElems);
      if (pieces_.empty() || pieces_.back().stage != stage) {
        pieces_.push_back({.stage = stage, .first = entry.offset});
      }
      pieces_.back().last = num_elems_;
      if (stage == groups_.coord()[Axis::kPipeline]) own(entry, spec.momentum);
    }
  }
}

void StatisticStore::own(Entry& entry, float momentum) {
  entry.owned_at = owned_elems_;
  owned_elems_ += round_up(entry.shape.num_elems(), kAlignElems);
  if (!runs_.empty() && runs_.back().momentum == momentum) {
    runs_.back().last = owned_elems_;
  } else {
    runs_.push_back({entry.owned_at, owned_elems_, momentum});
  }
}

void StatisticStore::fill(const BlockList& blocks) {
  std::vector<float> host(static_cast<std::size_t>(values_.num_elems()), 0.0f);
  auto next = entries_.begin();
  for (const auto& block : blocks) {
    for (const StatisticSpec& spec : block->statistics()) {
      if (next->owned_at >= 0) {
        std::fill_n(host.begin() + next->owned_at, spec.shape.num_elems(), spec.initial);
      }
      ++next;
    }
  }
  ctx_.backend->copy_from_host(ctx_.exec, values_, host.data());
}

Tensor StatisticStore::whole() const {
  if (!groups_.spans(Axis::kPipeline) || entries_.empty()) return values_;
  const Tensor all =
      ctx_.zeros({round_up(num_elems_, kNormBlock)}, DType::kFloat32, MemoryCategory::kCommunication);
  std::vector<Work> works;
  std::int64_t owned = 0;  // pieces lie in values() in the same order
  for (const Piece& piece : pieces_) {
    const Shape shape{piece.last - piece.first};
    const Tensor part = all.slice(piece.first, shape);
    if (piece.stage == groups_.coord()[Axis::kPipeline]) {
      ctx_.backend->copy(ctx_.exec, part, values_.slice(owned, shape));
      owned += shape.num_elems();
    }
    works.push_back(groups_.along(Axis::kPipeline)->broadcast(part, piece.stage));
  }
  for (Work& work : works) work.wait();
  return all;
}

const StatisticStore::Entry& StatisticStore::entry(int unit, StatisticRef ref) const {
  return entries_.at(first_of_unit_.at(static_cast<std::size_t>(unit)) + static_cast<std::size_t>(ref.index));
}

Tensor StatisticStore::value(int unit, StatisticRef ref) const {
  const Entry& e = entry(unit, ref);
  return values_.slice(e.owned_at, e.shape);
}

Tensor StatisticStore::sample(int unit, StatisticRef ref, int micro_batch) const {
  const Entry& e = entry(unit, ref);
  return samples_.slice(micro_batch * owned_elems_ + e.owned_at, e.shape);
}

void StatisticStore::reduce(const Tensor& skip) {
  if (owned_elems_ == 0) return;
  Tensor all = samples_;
  Communicator& data = *groups_.along(Axis::kData);
  if (data.size() > 1) {
    all = ctx_.empty({data.size() * samples_.num_elems()}, DType::kFloat32, MemoryCategory::kCommunication);
    data.all_gather(samples_, all).wait();
  }
  std::vector<std::int64_t> row_of(static_cast<std::size_t>(batch_.num_micro_batches()));
  for (int rank = 0; rank < batch_.data_ranks; ++rank) {
    for (std::int64_t m = 0; m < batch_.per_rank(); ++m) {
      row_of[static_cast<std::size_t>(batch_.global_micro_batch(rank, m))] = rank * batch_.per_rank() + m;
    }
  }
  for (const std::int64_t row : row_of) {
    for (const Run& run : runs_) {
      const Shape shape{run.last - run.first};
      ctx_.run(MoveAverageArgs{.value = values_.slice(run.first, shape),
                               .sample = all.slice(row * owned_elems_ + run.first, shape),
                               .momentum = run.momentum,
                               .skip = skip});
    }
  }
}

}  // namespace trireme
