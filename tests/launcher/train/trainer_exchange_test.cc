// Communication in a training step: the plan's collectives and one exchange of plain values.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "launcher/train/trainer.h"
#include "parallel/comm/communicator_wrapper.h"
#include "parallel/comm/local.h"
#include "parallel/foresee/predict.h"
#include "tests/launcher/job/cut_engine_options.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

/// Calls by kind, for a rank's communicator and all communicators split from it.
struct Calls {
  std::array<std::int64_t, kNumCallKinds> num{}, sent_bytes{};

  void add(CallKind kind, std::int64_t full_bytes, int size) {
    ++num[static_cast<std::size_t>(kind)];
    sent_bytes[static_cast<std::size_t>(kind)] += sent_bytes_of(kind, full_bytes, size);
  }
};

class CountingCommunicator final : public CommunicatorWrapper {
 public:
  CountingCommunicator(std::shared_ptr<Communicator> inner, Calls& calls)
      : CommunicatorWrapper(std::move(inner)), calls_(calls) {}

 protected:
  std::shared_ptr<Communicator> wrap(std::shared_ptr<Communicator> group) const override {
    return std::make_shared<CountingCommunicator>(std::move(group), calls_);
  }
  void add(CallKind kind, std::int64_t full_bytes) { calls_.add(kind, full_bytes, size()); }
  Work all_reduce_impl(const Tensor& inout, ReduceOp op) override {
    add(CallKind::kAllReduce, inout.size_bytes());
    return inner().all_reduce(inout, op);
  }
  Work reduce_scatter_impl(const Tensor& in, const Tensor& out, ReduceOp op) override {
    add(CallKind::kReduceScatter, in.size_bytes());
    return inner().reduce_scatter(in, out, op);
  }
  Work all_gather_impl(const Tensor& in, const Tensor& out) override {
    add(CallKind::kAllGather, out.size_bytes());
    return inner().all_gather(in, out);
  }
  Work all_to_all_impl(const Tensor& in, const Tensor& out) override {
    add(CallKind::kAllToAll, out.size_bytes());
    return inner().all_to_all(in, out);
  }
  Work broadcast_impl(const Tensor& inout, int root) override {
    add(CallKind::kBroadcast, inout.size_bytes());
    return inner().broadcast(inout, root);
  }
  Work send_impl(const Tensor& tensor, int peer, int tag) override {
    add(CallKind::kSend, tensor.size_bytes());
    return inner().send(tensor, peer, tag);
  }
  Work recv_impl(const Tensor& tensor, int peer, int tag) override {
    add(CallKind::kRecv, tensor.size_bytes());
    return inner().recv(tensor, peer, tag);
  }
  void barrier_impl() override {
    add(CallKind::kBarrier, 0);
    inner().barrier();
  }
  std::vector<std::string> all_gather_strings_impl(const std::string& text) override {
    add(CallKind::kAllGatherStrings, 0);
    return inner().all_gather_strings(text);
  }
  void all_gather_values_impl(std::span<const std::byte> mine, std::span<std::byte> all) override {
    add(CallKind::kAllGatherValues, std::ssize(all));
    CommunicatorWrapper::all_gather_values_impl(mine, all);
  }

 private:
  Calls& calls_;
};

constexpr int kRanks = 3;

JobConfig job(int zero, int stages) {
  JobConfig config{.data = {.kind = DataKind::kSynthetic}, .train = {.global_batch = 12, .micro_batch = 2}};
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
  config.parallel.layout.zero = static_cast<ZeroStage>(zero);
  config.parallel.layout.pipeline = stages;
  config.parallel.threads = 1;
  return config;
}

/// The calls of each rank in a whole run.
std::vector<Calls> calls_of_run(JobConfig config, std::int64_t steps) {
  config.train.steps = steps;
  const testing::TemporaryFolder folder;
  const StopRequest stop;
  std::vector<Calls> calls(kRanks);
  run_local_ranks(kRanks, [&](const std::shared_ptr<Communicator>& comm) {
    RunOptions options;
    options.config = config;
    options.blocks = build_blocks(config.model);
    options.out = folder / "out";
    options.comm =
        std::make_shared<CountingCommunicator>(comm, calls[static_cast<std::size_t>(comm->rank())]);
    Trainer(start_run(std::move(options)), stop).run();
  });
  return calls;
}

class TrainerExchange : public ::testing::TestWithParam<std::pair<int, int>> {};

// Two runs that differ by one step differ by that step's calls.
TEST_P(TrainerExchange, AStepMakesThePlansCallsAndOneOfPlainValues) {
  const JobConfig config = job(GetParam().first, GetParam().second);
  const std::vector<Calls> three = calls_of_run(config, 3), four = calls_of_run(config, 4);
  for (int rank = 0; rank < kRanks; ++rank) {
    const StepPrediction planned = predict_step(build_blocks(config.model), cut_engine_options(config),
                                                sample_spec(config), kRanks, rank);
    const Calls &before = three[static_cast<std::size_t>(rank)],
                &after = four[static_cast<std::size_t>(rank)];
    for (std::size_t kind = 0; kind < kNumCallKinds; ++kind) {
      const std::string where = fmt::format("{} on rank {}", name(static_cast<CallKind>(kind)), rank);
      const std::int64_t calls = after.num[kind] - before.num[kind];
      const std::int64_t sent = after.sent_bytes[kind] - before.sent_bytes[kind];
      if (static_cast<CallKind>(kind) == CallKind::kAllGatherValues) {
        EXPECT_EQ(calls, 1) << where;
        EXPECT_GT(sent, 0) << where;
        EXPECT_LT(sent, kRanks * 256) << where;  // a few numbers
        EXPECT_EQ(planned.sent_by_call[kind], 0) << where;
      } else {
        EXPECT_EQ(sent, planned.sent_by_call[kind]) << where;
      }
      const bool is_text = static_cast<CallKind>(kind) == CallKind::kAllGatherStrings;
      if (is_text || static_cast<CallKind>(kind) == CallKind::kBarrier) {
        EXPECT_EQ(calls, 0) << where;
      }
    }
    EXPECT_GT(planned.sent_bytes, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, TrainerExchange,
                         ::testing::Values(std::pair(0, 1), std::pair(1, 1), std::pair(2, 1), std::pair(3, 1),
                                           std::pair(0, 3)),
                         [](const auto& info) {
                           return fmt::format("Zero{}Stages{}", info.param.first, info.param.second);
                         });

}  // namespace
}  // namespace trireme
