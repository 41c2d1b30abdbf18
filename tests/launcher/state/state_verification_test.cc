// checkpoint.verify_every: a bit flipped during training is found within K steps, with its rank.
#include "launcher/state/state_verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "launcher/host/agreement.h"
#include "parallel/comm/local.h"
#include "runtime/base/rng.h"
#include "tests/support/tiny_gpt.h"

namespace trireme {
namespace {

constexpr std::int64_t kEvery = 4, kBatch = 3;
constexpr int kRanks = 3, kSeeds = 100;

GptConfig config() {
  GptConfig config = testing::tiny_gpt_config();
  config.layers = 1;
  return config;
}

void step(Engine& engine) {
  engine.step(testing::token_source(config().vocab, config().seq_len, engine.steps_done() * kBatch),
              kBatch * config().seq_len, 1e-3);
}

// The trainer's check after a step. Returns the error message.
std::string look(const Engine& engine, StateVerification& verification) {
  const std::int64_t step = engine.steps_done();
  const auto checks = engine.communicator().all_gather_value(verification.look(step));
  try {
    verification.judge(step, checks);
  } catch (const AgreedError& error) {
    return error.what();
  }
  return "";
}

struct Flip {
  int victim, group, bit;
  std::int64_t element, after_step;
};

Flip flip_of(const Engine& engine, int seed) {
  const Philox4 words = philox4x32({static_cast<std::uint32_t>(seed), 0, 0, 0}, {3, 4});
  const Philox4 more = philox4x32({static_cast<std::uint32_t>(seed), 1, 0, 0}, {3, 4});
  const auto& groups = engine.layout().groups;
  const int group = static_cast<int>(words[0] % groups.size());
  return {.victim = static_cast<int>(words[2] % kRanks),
          .group = group,
          .bit = static_cast<int>(words[3] % 32),
          .element = words[1] % groups[static_cast<std::size_t>(group)].num_elems,
          .after_step = 1 + more[0] % (2 * kEvery)};
}

void strike(Engine& engine, const Flip& flip) {
  const Tensor& master = engine.parameters().master(flip.group);
  auto* bytes = static_cast<unsigned char*>(master.data()) + flip.element * size_bytes(master.dtype());
  bytes[flip.bit / 8] ^= static_cast<unsigned char>(1 << (flip.bit % 8));
}

TEST(StateVerification, FindsEachOfAHundredFlipsOfParametersWithinKSteps) {
  for (int seed = 0; seed < kSeeds; ++seed) {
    run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
      Engine engine(build_gpt(config()), comm,
                    {.global_batch = kBatch, .micro_batch = 1, .seed = 5, .verify_state = true});
      StateVerification verification(engine, kEvery);
      const Flip flip = flip_of(engine, seed);
      std::string found;
      while (found.empty() && engine.steps_done() < flip.after_step + kEvery) {
        step(engine);
        found = look(engine, verification);
        if (engine.steps_done() > flip.after_step) continue;
        ASSERT_EQ(found, "") << "seed " << seed << ", before anything flipped";
        if (engine.steps_done() == flip.after_step && comm->rank() == flip.victim) strike(engine, flip);
      }
      EXPECT_THAT(found, ::testing::ContainsRegex("silent corruption: after step [0-9]+ the state of rank " +
                                                  std::to_string(flip.victim) + " on "))
          << "seed " << seed << ", bit " << flip.bit << " of element " << flip.element << " of group "
          << flip.group << " after step " << flip.after_step;
    });
  }
}

}  // namespace
}  // namespace trireme
