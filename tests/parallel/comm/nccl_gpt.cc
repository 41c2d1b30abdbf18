// Trains a tiny GPT with one GPU per rank, with enqueued and with recorded steps. Prints as JSON the results
// that must not depend on the number of ranks. Exit code 1 if the two differ:
//   mpirun -np N nccl_gpt
#include <fmt/core.h>

#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/parallel/comm/shared_card.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

struct Outcome {
  float loss = 0;
  std::uint64_t hash = 0;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const std::shared_ptr<Communicator>& comm, Device device, bool recorded) {
  GptConfig config = testing::tiny_gpt_config();
  config.dropout = 0.1f;
  constexpr std::int64_t kGlobalBatch = 8;
  Engine engine(build_gpt(config), comm,
                {.device = device,
                 .global_batch = kGlobalBatch,
                 .micro_batch = 2,
                 .seed = 5,
                 .optimizer = {.weight_decay = 0.1f},
                 .grad_clip = 0.5f,
                 .cuda_graph = recorded});
  StepResult result;
  for (int step = 0; step < 4; ++step) {
    result = engine.step(testing::token_source(config.vocab, config.seq_len, step * kGlobalBatch),
                         kGlobalBatch * config.seq_len, 1e-2);
  }
  return {.loss = result.loss, .hash = engine.state_hash()};
}

int compare(const std::shared_ptr<Communicator>& comm, Device device) {
  const Outcome enqueued = train(comm, device, false), recorded = train(comm, device, true);
  if (comm->rank() == 0) {
    fmt::print("{{\"loss\": {:.9g}, \"state_hash\": \"{:016x}\", \"recorded_state_hash\": \"{:016x}\"}}\n",
               enqueued.loss, enqueued.hash, recorded.hash);
  }
  return enqueued == recorded ? 0 : 1;
}

}  // namespace
}  // namespace trireme

int main() {
  using namespace trireme;
  return run_over_nccl([](const auto& comm, Device device) { return compare(comm, device); });
}
