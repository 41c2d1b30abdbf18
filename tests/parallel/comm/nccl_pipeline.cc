// Trains a tiny GPT in pipelines over NCCL; ranks share cards if there are fewer cards (one_card.sh).
// Compares each layout with one rank on a card: the state's bits, and memory with its prediction. Prints one
// JSON line per layout; exit code 1 if one differs.
//   mpirun -np 4 one_card.sh nccl_pipeline             every schedule, step by step
//   mpirun -np 4 one_card.sh nccl_pipeline --recorded  one, with recorded steps, under a short limit: a graph
//                                                      need not run its branches at once, so they may hang
#include <fmt/core.h>

#include <string_view>
#include <vector>

#include "parallel/foresee/predict.h"
#include "runtime/base/error.h"
#include "tests/parallel/comm/shared_card.h"
#include "tests/support/pipeline_layout.h"

namespace trireme {
namespace {

using testing::PipelineLayout;

enum class Steps { kEnqueued, kRecorded };

struct Outcome {
  float loss = 0, grad_norm = 0;
  std::uint64_t hash = 0;
  bool operator==(const Outcome&) const = default;
};

struct Measured {
  Outcome outcome;
  MemoryCounts peak;  // of this rank, without workspaces
};

EngineOptions options_of(const PipelineLayout& layout, Steps steps) {
  EngineOptions options = layout.options();
  options.cuda_graph = steps == Steps::kRecorded;
  return options;
}

// With recorded steps, the third step is recorded, and later steps replay it.
Measured train(const PipelineLayout& layout, Steps steps, const std::shared_ptr<Communicator>& comm,
               Device device) {
  EngineOptions options = options_of(layout, steps);
  options.device = device;
  Engine engine(build_gpt(layout.model()), comm, options);
  const StepResult last = testing::train(engine, layout, 5);
  Measured measured{{last.loss, last.grad_norm, engine.state_hash()}, last.memory.peak};
  measured.peak[MemoryCategory::kWorkspace] = 0;
  return measured;
}

bool as_predicted(const PipelineLayout& layout, Steps steps, const Communicator& comm,
                  const MemoryCounts& peak) {
  const EngineOptions options = options_of(layout, steps);
  const auto blocks = std::make_shared<const BlockList>(build_gpt(layout.model()));
  return predict_step(blocks, options, *options.sample, layout.ranks(), comm.rank()).memory.peak.bytes ==
         peak.bytes;
}

// Each schedule once, on one mesh, because ranks that share a card are slow. The emulation covers more
// layouts.
std::vector<PipelineLayout> layouts_of(int ranks, Steps steps) {
  using enum PipelineSchedule;
  if (steps == Steps::kRecorded) return {{.stages = ranks, .schedule = kOneForwardOneBackward}};
  std::vector<PipelineLayout> layouts;
  if (ranks % 2 == 0) {
    layouts.push_back({.stages = 2, .data = ranks / 2, .schedule = kOneForwardOneBackward, .zero = 3});
    layouts.push_back({.stages = 2, .data = ranks / 2, .schedule = kInterleaved, .chunks = 2});
  }
  if (ranks % 4 == 0) {
    layouts.push_back({.stages = 4, .data = ranks / 4, .schedule = kGpipe});
    layouts.push_back({.stages = 4, .data = ranks / 4, .schedule = kZeroBubbleH1, .zero = 3, .recompute = 1});
  }
  return layouts;
}

// Returns the number of layouts that differ.
int compare(const std::shared_ptr<Communicator>& comm, Device device, Steps steps) {
  Outcome expected;
  if (comm->rank() == 0) {
    expected = train({}, Steps::kEnqueued, LocalWorld(1).communicator(0), device).outcome;
  }
  comm->barrier();
  int num_different = 0;
  for (const PipelineLayout& layout : layouts_of(comm->size(), steps)) {
    const Measured mine = train(layout, steps, comm, device);
    int num_predicted = 0;
    for (const std::string& rank :
         comm->all_gather_strings(as_predicted(layout, steps, *comm, mine.peak) ? "1" : "0")) {
      num_predicted += rank == "1";
    }
    if (comm->rank() != 0) continue;
    const bool same = mine.outcome == expected, predicted = num_predicted == comm->size();
    num_different += !same || !predicted;
    fmt::print(
        "{{\"layout\": \"{}{}\", \"loss\": {:.9g}, \"state_hash\": \"{:016x}\", \"same\": {}, "
        "\"memory_as_predicted\": {}}}\n",
        layout.to_string(), steps == Steps::kRecorded ? ", recorded" : "", mine.outcome.loss,
        mine.outcome.hash, same, predicted);
  }
  return num_different;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) {
  using namespace trireme;
  const Steps steps =
      argc > 1 && std::string_view(argv[1]) == "--recorded" ? Steps::kRecorded : Steps::kEnqueued;
  return run_over_nccl(
      [steps](const auto& comm, Device device) { return compare(comm, device, steps) == 0 ? 0 : 1; },
      std::chrono::seconds(steps == Steps::kRecorded ? 30 : 240));
}
