#include "tests/support/mutated_layouts.h"

#include <algorithm>
#include <array>
#include <bit>
#include <random>

#include "tests/support/tiny_resnet.h"

namespace trireme::testing {
namespace {

using enum PipelineSchedule;
using Model = MutatedLayout::Model;

constexpr std::int64_t kPixels = 4;
constexpr float kLossScale = 0x1p18f;  // the first step is skipped, the second is not

// Two data ranks share every group's parameters: the token table has more than one padding unit of 1024
// elements.
GptConfig mutated_gpt(std::int64_t layers) {
  return {.layers = layers, .hidden = 8, .heads = 2, .vocab = 160, .seq_len = 4, .dropout = 0.1f};
}

ResNetConfig mutated_resnet() {
  return {.stem = ResNetConfig::Stem::kCifar, .bottleneck = false, .units = {1, 1}, .width = 2, .classes = 5};
}

struct Sizes {
  int stages = 1, data = 1, micro_batches = 3;
};

MutatedLayout layout_of(const Sizes& sizes, int zero, PipelineSchedule schedule = kOneForwardOneBackward) {
  MutatedLayout layout;
  layout.in = {.stages = sizes.stages,
               .data = sizes.data,
               .schedule = schedule,
               .chunks = schedule == kInterleaved ? 2 : 1,
               .zero = zero,
               .gpt = mutated_gpt(sizes.stages > 2 ? 6 : 2),
               .global_batch = static_cast<std::int64_t>(sizes.data) * sizes.micro_batches,
               .micro_batch = 1};
  return layout;
}

// Every ZeRO stage and schedule, with and without recompute and tied parameters.
void add_small(std::vector<MutatedLayout>& all) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int data : {1, 2}) {
      for (const int recompute : {0, 2}) {
        all.push_back(layout_of({.data = data}, zero));
        all.back().in.recompute = recompute;
      }
      for (const PipelineSchedule schedule : {kGpipe, kOneForwardOneBackward, kInterleaved, kZeroBubbleH1}) {
        all.push_back(layout_of({.stages = 2, .data = data, .micro_batches = 2}, zero, schedule));
        all.back().in.tied = (zero + data + static_cast<int>(schedule)) % 2 == 0;
        all.back().in.recompute = (zero / 2 + data + static_cast<int>(schedule)) % 2;
      }
    }
  }
}

// Gathers and reductions once per step instead of per micro-batch, the library's sums, and 16 bits.
void add_exchanges(std::vector<MutatedLayout>& all) {
  for (const int stages : {1, 2}) {
    const Sizes sizes{.stages = stages, .data = 2, .micro_batches = 2};
    for (const int zero : {2, 3}) {
      all.push_back(layout_of(sizes, zero));
      all.back().in.accumulate_unsharded = true;
    }
    for (const bool unsharded : {false, true}) {
      all.push_back(layout_of(sizes, 3));
      all.back().in.keep_gathered = true;
      all.back().in.accumulate_unsharded = unsharded;
      all.back().in.recompute = 1;
    }
    for (const int prefetch : {0, 2, 3}) {
      all.push_back(layout_of(sizes, 3));
      all.back().in.prefetch = prefetch;
    }
    for (const int zero : {0, 1, 2, 3}) {
      all.push_back(layout_of(sizes, zero));
      all.back().reduction = Reduction::kFast;
    }
    for (const int zero : {1, 3}) {
      all.push_back(layout_of(sizes, zero));
      all.back().in.precision = Precision(PrecisionMode::kBf16);
    }
    all.push_back(layout_of(sizes, 2));
    all.back().in.precision = Precision(PrecisionMode::kFp16);
    for (const int zero : {0, 2, 3}) {
      all.push_back(layout_of(sizes, zero, stages == 2 && zero > 0 ? kZeroBubbleH1 : kOneForwardOneBackward));
      all.back().in.group_min_bytes = 1 << 13;  // several blocks share a group
    }
  }
}

void add_batch_norm(std::vector<MutatedLayout>& all) {
  for (const int zero : {0, 1, 2, 3}) {
    all.push_back(layout_of({.data = 2, .micro_batches = 2}, zero));
    all.push_back(layout_of({.stages = 2, .data = zero % 2 + 1, .micro_batches = 2}, zero));
    all.back().in.schedule = zero % 2 == 0 ? kOneForwardOneBackward : kZeroBubbleH1;
    all.back().in.recompute = zero / 2;
    for (MutatedLayout* layout : {&all.back(), &all.back() - 1}) {
      layout->model = Model::kResNet;
      layout->in.micro_batch = 2;
      layout->in.global_batch *= 2;
    }
  }
}

void add_large(std::vector<MutatedLayout>& all) {
  all.push_back(layout_of({.data = 8, .micro_batches = 2}, 3));
  all.push_back(layout_of({.stages = 2, .data = 4, .micro_batches = 4}, 2, kInterleaved));
  all.push_back(layout_of({.stages = 4, .data = 2, .micro_batches = 4}, 1, kInterleaved));
  all.push_back(layout_of({.stages = 4, .data = 2, .micro_batches = 6}, 3));
  all.push_back(layout_of({.stages = 4, .data = 1, .micro_batches = 8}, 0, kZeroBubbleH1));
  all.push_back(layout_of({.stages = 3, .data = 1, .micro_batches = 4}, 2, kGpipe));
}

// Exchanges on two levels: two hosts of two data ranks each.
void add_hosts(std::vector<MutatedLayout>& all) {
  for (const int zero : {0, 1, 2, 3}) {
    for (const int stages : {1, 2}) {
      for (const Reduction reduction : {Reduction::kCanonical, Reduction::kFast}) {
        if (stages == 2 && reduction == Reduction::kFast && zero > 1) continue;
        all.push_back(layout_of({.stages = stages, .data = 4, .micro_batches = 2}, zero));
        all.back().in.tied = stages == 2;
        all.back().reduction = reduction;
        all.back().ranks_per_host = 2;
      }
    }
  }
  all.push_back(all.back());
  all.back().in.group_min_bytes = 1 << 13;
}

MutatedLayout random_layout(std::mt19937_64& random) {
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(random() % static_cast<unsigned>(most - least + 1));
  };
  Sizes sizes{.stages = draw(1, 4), .data = draw(1, 4), .micro_batches = draw(1, 6)};
  while (sizes.stages * sizes.data > 8) --sizes.data;
  PipelineSchedule schedule = kOneForwardOneBackward;
  if (sizes.stages > 1)
    schedule =
        std::array{kGpipe, schedule, kInterleaved, kZeroBubbleH1}[static_cast<std::size_t>(draw(0, 3))];
  if (schedule == kInterleaved) sizes.micro_batches = std::max(sizes.micro_batches, sizes.stages);
  MutatedLayout layout = layout_of(sizes, draw(0, 3), schedule);
  layout.in.recompute = draw(0, 1) * draw(1, 3);
  layout.in.tied = draw(0, 1) == 1;
  layout.in.prefetch = draw(0, 3);
  layout.in.keep_gathered = layout.in.zero == 3 && draw(0, 1) == 1;
  layout.in.accumulate_unsharded = layout.in.zero >= 2 && draw(0, 1) == 1;
  if (draw(0, 3) == 0) layout.in.group_min_bytes = 1 << draw(12, 15);
  if (draw(0, 3) == 0) layout.reduction = Reduction::kFast;
  return layout;
}

std::vector<int> even_cut(int num_blocks, int chunks) {
  std::vector<int> cut;
  for (int c = 1; c < chunks; ++c) cut.push_back(num_blocks * c / chunks);
  return cut;
}

void add_bits(Bits& bits, float value) {
  bits.push_back(std::bit_cast<std::uint32_t>(value));
}

}  // namespace

std::vector<MutatedLayout> mutated_layouts() {
  std::vector<MutatedLayout> all;
  add_small(all);
  add_exchanges(all);
  add_batch_norm(all);
  add_large(all);
  add_hosts(all);
  return all;
}

std::vector<MutatedLayout> mutated_tensor_layouts() {
  std::vector<MutatedLayout> all;
  for (const int zero : {0, 1, 3}) {
    for (const int data : {1, 2}) {
      for (const PipelineSchedule schedule : {kOneForwardOneBackward, kZeroBubbleH1}) {
        const int stages = schedule == kZeroBubbleH1 ? 2 : 1;
        MutatedLayout& layout =
            all.emplace_back(layout_of({.stages = stages, .data = data, .micro_batches = 2}, zero, schedule));
        layout.in.tensor = 2;
        layout.in.gpt.tensor_chunks = 2;
        layout.in.recompute = zero == 1 ? 1 : 0;
        layout.in.tied = data == 1;
        layout.in.sequence = (zero + data + stages) % 2 == 0;
      }
    }
  }
  return all;
}

std::vector<MutatedLayout> random_layouts(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<MutatedLayout> all;
  while (all.size() < count) all.push_back(random_layout(random));
  return all;
}

std::string MutatedLayout::to_string() const {
  return fmt::format("{}{}{}{}{}{}, {} micro-batches", in.to_string(),
                     model == Model::kResNet ? ", batch norm" : "",
                     reduction == Reduction::kFast ? ", fast reduction" : "",
                     in.precision.mode() == PrecisionMode::kBf16 ? ", bf16" : "",
                     in.group_min_bytes > 0 ? ", shared groups" : "", ranks_per_host > 0 ? ", hosts" : "",
                     in.global_batch / in.micro_batch / in.data);
}

EngineOptions MutatedLayout::options() const {
  EngineOptions options = in.options();
  options.reduction = reduction;
  if (ranks_per_host > 0) options.hosts = hosts_of(in.ranks(), ranks_per_host);
  if (in.precision.mode() == PrecisionMode::kFp16) {
    options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic, .initial = kLossScale};
  }
  if (model == Model::kResNet) {
    options.sample = SampleSpec{.input = {kPixels, kPixels, 3}, .input_dtype = DType::kFloat32, .target = {}};
  }
  if (in.stages > 1) {
    options.layout.cut = even_cut(static_cast<int>(blocks()->size()), in.stages * in.chunks);
  }
  return options;
}

std::shared_ptr<const BlockList> MutatedLayout::blocks() const {
  if (model == Model::kResNet) return std::make_shared<const BlockList>(build_resnet(mutated_resnet()));
  return std::make_shared<const BlockList>(build_gpt(in.model()));
}

LayoutPlayer::LayoutPlayer(MutatedLayout layout, PlayedPlan played)
    : layout_(std::move(layout)), played_(played), blocks_(layout_.blocks()) {
  bits_ = play_rewritten(Planning::kAllRanks, [this](int rank, StepPlan& planned) {
    if (rank == 0) plan_ = planned;
  });
}

Bits LayoutPlayer::play(const StepPlan& plan) const {
  return play_rewritten(Planning::kOwnRank, [&](int, StepPlan& planned) { planned = plan; });
}

Bits LayoutPlayer::play_rewritten(Planning planning,
                                  const std::function<void(int rank, StepPlan&)>& rewrite) const {
  std::vector<Bits> of_rank(static_cast<std::size_t>(layout_.in.ranks()));
  const bool resnet = layout_.model == Model::kResNet;
  const GptConfig& gpt = layout_.in.gpt;
  const auto source = [&](std::int64_t first) {
    return resnet ? image_source(kPixels, mutated_resnet().classes, first)
                  : token_source(gpt.vocab, gpt.seq_len, first);
  };
  const std::int64_t targets = resnet ? 1 : gpt.seq_len;
  const EngineOptions options = layout_.options();
  run_local_ranks(layout_.in.ranks(), [&](const std::shared_ptr<Communicator>& comm) {
    Bits& bits = of_rank[static_cast<std::size_t>(comm->rank())];
    EngineOptions mine = options;
    mine.planning = planning;
    mine.rewrite_plan = [&, calls = 0](StepPlan& planned) mutable {
      if ((calls++ == 0) == (played_ == PlayedPlan::kStep)) rewrite(comm->rank(), planned);
    };
    Engine engine(blocks_, comm, mine);
    const std::int64_t batch = layout_.in.global_batch;
    for (int step = 0; played_ == PlayedPlan::kStep && step < 2; ++step) {
      const StepResult result = engine.step(source(step * batch), targets * batch, 1e-2);
      add_bits(bits, result.loss);
      add_bits(bits, result.grad_norm);
    }
    const std::int64_t samples = 3 * layout_.in.data * layout_.in.micro_batch - 1;
    add_bits(bits, engine.evaluate(source(777), samples, targets * samples));
    bits.push_back(engine.state_hash());
  });
  Bits all;
  for (const Bits& bits : of_rank) all.insert(all.end(), bits.begin(), bits.end());
  return all;
}

}  // namespace trireme::testing
