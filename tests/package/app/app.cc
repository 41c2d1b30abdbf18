// Trains a GPT on threads as ranks: it must learn that the token after n is n + 1.
#include <cstdio>
#include <span>

#include "models/gpt.h"
#include "parallel/comm/local.h"
#include "parallel/run/engine.h"

using namespace trireme;

int main() {
  const auto counting = [](std::int64_t first, std::int64_t count) {
    HostBatch batch{.input_shape = {count, 8}, .target_shape = {count, 8}};
    for (std::int64_t token = first * 8; token < (first + count) * 8; ++token) {
      const auto now = static_cast<std::int32_t>(token % 10),
                 next = static_cast<std::int32_t>((token + 1) % 10);
      const auto bytes = std::as_bytes(std::span(&now, 1));
      batch.inputs.insert(batch.inputs.end(), bytes.begin(), bytes.end());
      batch.targets.push_back(next);
    }
    return batch;
  };
  run_local_ranks(2, [&](const std::shared_ptr<Communicator>& comm) {
    BlockList gpt = build_gpt({.layers = 1, .hidden = 16, .heads = 2, .vocab = 10, .seq_len = 8});
    Engine engine(std::move(gpt), comm, {.global_batch = 8, .micro_batch = 2});
    const float before = engine.step(counting, 64, 0.01).loss;
    float after = before;
    for (int step = 0; step < 30; ++step) after = engine.step(counting, 64, 0.01).loss;
    if (comm->rank() == 0)
      std::printf("loss %s %.3f -> %.3f\n", after < 0.5f * before ? "fell" : "stuck", before, after);
  });
}
