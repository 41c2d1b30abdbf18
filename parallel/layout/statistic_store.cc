#include "parallel/layout/statistic_store.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/fp8.h"

namespace trireme {
namespace {

// Statistics begin at cache lines.
constexpr std::int64_t kAlignElems = 16;

std::int64_t round_up(std::int64_t n, std::int64_t unit) {
  return (n + unit - 1) / unit * unit;
}

// A history takes one cache line.
static_assert(kFp8HistoryElems == kAlignElems);

constexpr std::array<std::string_view, kNumFp8Operands> kMaximaNames = {"input", "weight", "output_gradient"};

bool allows_fp8(const ParameterSpec& spec) {
  return spec.allows_fp8;
}

}  // namespace

bool has_statistics(const Block& block, const Precision& precision) {
  return !block.statistics().empty() ||
         (precision.has_fp8_products() && std::ranges::any_of(block.parameters(), allows_fp8));
}

StatisticStore::StatisticStore(const Context& ctx, const BlockList& blocks, const BatchLayout& batch,
                               const MeshGroups& groups, const StageMap& stages)
    : ctx_(ctx), batch_(batch), groups_(groups) {
  lay_out(blocks, stages);
  TRIREME_CHECK(
      ctx_.precision.mode() != PrecisionMode::kFp8 || !maxima_of_.empty(),
      "Precision::mode = fp8: this model has no product in fp8, so that it would train as in bf16; "
      "take bf16. Linear layers inside of transformer blocks are in fp8, unless precision overrides "
      "linear; convolutions and heads are not");
  if (owned_elems_ == 0) return;
  const MemoryHolderScope holder(*ctx_.allocator, "running statistics");
  values_ = ctx_.zeros({round_up(owned_elems_, kNormBlock)}, DType::kFloat32, MemoryCategory::kParameters);
  samples_ = ctx_.zeros({batch_.per_rank(), owned_elems_}, DType::kFloat32, MemoryCategory::kCommunication);
  if (std::ranges::find(runs_, StatisticRule::kMaxima, &Run::rule) != runs_.end()) {
    num_clipped_ = ctx_.zeros({}, DType::kInt32, MemoryCategory::kOptimizer);
  }
  fill(blocks);
}

void StatisticStore::lay_out(const BlockList& blocks, const StageMap& stages) {
  for (std::size_t u = 0; u < blocks.size(); ++u) {
    const auto unit = static_cast<int>(u);
    const Block& block = *blocks[u];
    first_of_unit_.push_back(entries_.size());
    for (const StatisticSpec& spec : block.statistics()) {
      add({.name = block.full_name(spec), .shape = spec.shape}, spec.momentum, stages.stage_of(unit));
    }
    if (ctx_.precision.has_fp8_products()) add_maxima(block, unit, stages.stage_of(unit));
  }
}

void StatisticStore::add_maxima(const Block& block, int unit, int stage) {
  for (std::size_t p = 0; p < block.parameters().size(); ++p) {
    const ParameterSpec& spec = block.parameters()[p];
    if (!spec.allows_fp8) continue;
    maxima_of_[{unit, static_cast<int>(p)}] = entries_.size();
    for (const std::string_view operand : kMaximaNames) {
      add({.name = fmt::format("{}.fp8_maxima.{}", block.full_name(spec), operand),
           .shape = {kFp8HistoryElems},
           .rule = StatisticRule::kMaxima},
          0.0f, stage);
    }
  }
}

void StatisticStore::add(Entry entry, float momentum, int stage) {
  TRIREME_CHECK(std::ranges::find(entries_, entry.name, &Entry::name) == entries_.end(),
                "two statistics are called '{}'", entry.name);
  entry.offset = num_elems_;
  num_elems_ += round_up(entry.shape.num_elems(), kAlignElems);
  if (pieces_.empty() || pieces_.back().stage != stage) {
    pieces_.push_back({.stage = stage, .first = entry.offset});
  }
  pieces_.back().last = num_elems_;
  if (stage == groups_.coord()[Axis::kPipeline]) own(entry, momentum);
  entries_.push_back(std::move(entry));
}

void StatisticStore::own(Entry& entry, float momentum) {
  entry.owned_at = owned_elems_;
  owned_elems_ += round_up(entry.shape.num_elems(), kAlignElems);
  if (!runs_.empty() && runs_.back().rule == entry.rule && runs_.back().momentum == momentum) {
    runs_.back().last = owned_elems_;
  } else {
    runs_.push_back({entry.owned_at, owned_elems_, entry.rule, momentum});
  }
}

void StatisticStore::fill(const BlockList& blocks) {
  std::vector<float> host(static_cast<std::size_t>(values_.num_elems()), 0.0f);
  for (std::size_t unit = 0; unit < blocks.size(); ++unit) {
    std::size_t next = first_of_unit_[unit];
    for (const StatisticSpec& spec : blocks[unit]->statistics()) {
      const Entry& entry = entries_[next++];
      if (entry.owned_at < 0) continue;
      std::fill_n(host.begin() + entry.owned_at, spec.shape.num_elems(), spec.initial);
    }
  }
  ctx_.backend->copy_from_host(ctx_.exec, values_, host.data());
}

// Uses host memory, which the memory limit does not count: statistics are small.
std::vector<float> StatisticStore::whole() const {
  if (entries_.empty()) return {};
  if (!groups_.spans(Axis::kPipeline)) return ctx_.to_host(values_);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(groups_.mesh.size(Axis::kPipeline)), 0);
  for (const Piece& piece : pieces_) sizes[static_cast<std::size_t>(piece.stage)] += piece.last - piece.first;
  std::vector<float> mine;
  if (values_.defined()) mine = ctx_.to_host(values_);
  const auto stride = static_cast<std::size_t>(std::ranges::max(sizes));
  mine.resize(stride);
  const std::vector<float> gathered =
      groups_.along(Axis::kPipeline)->all_gather_values(std::span<const float>(mine));
  std::vector<float> all(static_cast<std::size_t>(round_up(num_elems_, kNormBlock)), 0.0f);
  std::vector<std::int64_t> taken(sizes.size(), 0);  // pieces have the same order in values()
  for (const Piece& piece : pieces_) {
    const auto stage = static_cast<std::size_t>(piece.stage);
    const std::int64_t first = static_cast<std::int64_t>(stage * stride) + taken[stage];
    std::copy_n(gathered.begin() + first, piece.last - piece.first, all.begin() + piece.first);
    taken[stage] += piece.last - piece.first;
  }
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
  if (num_clipped_.defined()) ctx_.backend->fill_zero(ctx_.exec, num_clipped_);
  for (const Run& run : runs_) {
    if (run.rule == StatisticRule::kAverage) {
      move_average(run, all, skip);
      continue;
    }
    ctx_.run(MoveMaximaArgs{
        .histories = values_.slice(run.first, {(run.last - run.first) / kFp8HistoryElems, kFp8HistoryElems}),
        .samples = all.reshape({all.num_elems() / owned_elems_, owned_elems_}),
        .first_column = run.first,
        .num_clipped = num_clipped_,
        .skip = skip});
  }
  discard_maxima();
}

void StatisticStore::discard_maxima() const {
  if (num_clipped_.defined()) ctx_.backend->fill_zero(ctx_.exec, samples_);
}

void StatisticStore::move_average(const Run& run, const Tensor& all, const Tensor& skip) const {
  std::vector<std::int64_t> row_of(static_cast<std::size_t>(batch_.num_micro_batches()));
  for (int rank = 0; rank < batch_.data_ranks; ++rank) {
    for (std::int64_t m = 0; m < batch_.count_of(rank); ++m) {
      row_of[static_cast<std::size_t>(batch_.global_micro_batch(rank, m))] = rank * batch_.per_rank() + m;
    }
  }
  const Shape shape{run.last - run.first};
  for (const std::int64_t row : row_of) {
    ctx_.run(MoveAverageArgs{.value = values_.slice(run.first, shape),
                             .sample = all.slice(row * owned_elems_ + run.first, shape),
                             .momentum = run.momentum,
                             .skip = skip});
  }
}

std::optional<Fp8Maxima> StatisticStore::maxima(int unit, ParamRef weight, Fp8Operand operand,
                                                int micro_batch) const {
  const auto found = maxima_of_.find({unit, weight.index});
  if (found == maxima_of_.end()) return std::nullopt;
  const Entry& e = entries_.at(found->second + static_cast<std::size_t>(operand));
  Fp8Maxima maxima{.history = values_.slice(e.owned_at, e.shape)};
  if (micro_batch >= 0) maxima.sample = samples_.slice(micro_batch * owned_elems_ + e.owned_at, {});
  return maxima;
}

}  // namespace trireme
