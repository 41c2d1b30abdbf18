#include "parallel/statistic_store.h"

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
                               std::shared_ptr<Communicator> comm)
    : ctx_(ctx), batch_(batch), comm_(std::move(comm)) {
  lay_out(blocks);
  if (entries_.empty()) return;
  const MemoryHolderScope holder(*ctx_.allocator, "running statistics");
  values_ = ctx_.zeros({round_up(num_elems_, kNormBlock)}, DType::kFloat32, MemoryCategory::kParameters);
  samples_ = ctx_.zeros({batch_.per_rank(), num_elems_}, DType::kFloat32, MemoryCategory::kCommunication);
  fill(blocks);
}

void StatisticStore::lay_out(const BlockList& blocks) {
  std::set<std::string> names;
  for (const auto& block : blocks) {
    first_of_unit_.push_back(entries_.size());
    for (const StatisticSpec& spec : block->statistics()) {
      const std::string name = block->full_name(spec);
      TRIREME_CHECK(names.insert(name).second, "two statistics are called '{}'", name);
      entries_.push_back({name, spec.shape, num_elems_});
      const std::int64_t end = num_elems_ + round_up(spec.shape.num_elems(), kAlignElems);
      if (!runs_.empty() && runs_.back().momentum == spec.momentum) {
        runs_.back().last = end;
      } else {
        runs_.push_back({num_elems_, end, spec.momentum});
      }
      num_elems_ = end;
    }
  }
}

void StatisticStore::fill(const BlockList& blocks) {
  std::vector<float> host(static_cast<std::size_t>(values_.num_elems()), 0.0f);
  auto next = entries_.begin();
  for (const auto& block : blocks) {
    for (const StatisticSpec& spec : block->statistics()) {
      std::fill_n(host.begin() + next->offset, spec.shape.num_elems(), spec.initial);
      ++next;
    }
  }
  ctx_.backend->copy_from_host(ctx_.exec, values_, host.data());
}

const StatisticStore::Entry& StatisticStore::entry(int unit, StatisticRef ref) const {
  return entries_.at(first_of_unit_.at(static_cast<std::size_t>(unit)) + static_cast<std::size_t>(ref.index));
}

Tensor StatisticStore::value(int unit, StatisticRef ref) const {
  const Entry& e = entry(unit, ref);
  return values_.slice(e.offset, e.shape);
}

Tensor StatisticStore::sample(int unit, StatisticRef ref, int micro_batch) const {
  const Entry& e = entry(unit, ref);
  return samples_.slice(micro_batch * num_elems_ + e.offset, e.shape);
}

void StatisticStore::move(const Tensor& skip) {
  if (entries_.empty()) return;
  Tensor all = samples_;
  if (comm_->size() > 1) {
    all = ctx_.empty({comm_->size() * samples_.num_elems()}, DType::kFloat32, MemoryCategory::kCommunication);
    comm_->all_gather(samples_, all).wait();
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
      required(*ctx_.backend, &Backend::move_average, "move_average")(
          ctx_.exec, {.value = values_.slice(run.first, shape),
                      .sample = all.slice(row * num_elems_ + run.first, shape),
                      .momentum = run.momentum,
                      .skip = skip.defined() ? skip.const_view() : ConstTensorView{}});
    }
  }
}

}  // namespace trireme
