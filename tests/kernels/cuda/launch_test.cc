// Messages of `trireme train` about GPUs that are missing, too few, too small, or too new for their driver.
// Runs in the emulation, where a test sets the number and size of the cards.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/host/arithmetic.h"
#include "launcher/host/device.h"
#include "launcher/host/device_rates.h"
#include "launcher/job/memory_fit.h"
#include "launcher/train/trainer.h"
#include "parallel/comm/local.h"
#include "parallel/comm/nccl.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/launcher/config/error_matchers.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CudaLaunch : public ::testing::Test {
 protected:
  ~CudaLaunch() override {
    emulation::set_device_count(1);
    emulation::set_driver_version(13000);
    emulation::set_memory_limit(std::size_t{1} << 50);
  }

  RankDevice choose(std::optional<DeviceType> wanted, const LaunchEnvironment& launch = {}) {
    return choose_device(wanted, launch, LocalWorld(1).communicator(0));
  }
  std::string refusal(const LaunchEnvironment& launch = {}) {
    return error_message([&] { choose(DeviceType::kCuda, launch); }, ErrorCode::kUnsupported);
  }
};

TEST_F(CudaLaunch, AGpuIsTaken) {
  EXPECT_EQ(choose(std::nullopt).device.type, DeviceType::kCuda);
  EXPECT_EQ(choose(DeviceType::kCuda).device.type, DeviceType::kCuda);
  EXPECT_EQ(choose(DeviceType::kCpu).device.type, DeviceType::kCpu);
}

TEST_F(CudaLaunch, ADriverOlderThanTheToolkit) {
  emulation::set_driver_version(12020);
  EXPECT_EQ(choose(std::nullopt).device.type, DeviceType::kCpu);
  EXPECT_THAT(refusal(),
              HasSubstr("parallel.device = \"cuda\", but the driver supports CUDA up to 12.2 and this "
                        "build needs 13.0: update the driver, or build with an older toolkit; use device "
                        "= \"cpu\" or \"auto\""));
}

TEST_F(CudaLaunch, NoDriver) {
  emulation::set_driver_version(0);
  EXPECT_EQ(choose(std::nullopt).device.type, DeviceType::kCpu);
  EXPECT_THAT(refusal(), HasSubstr("no NVIDIA driver is loaded"));
}

TEST_F(CudaLaunch, NoGpuIsVisible) {
  emulation::set_device_count(0);
  EXPECT_EQ(choose(std::nullopt).device.type, DeviceType::kCpu);
  EXPECT_THAT(refusal(), HasSubstr("no GPU is visible to this process (CUDA_VISIBLE_DEVICES?)"));
}

TEST_F(CudaLaunch, MoreRanksThanGpus) {
  emulation::set_device_count(2);
  EXPECT_EQ(choose(DeviceType::kCuda, {.local_rank = 1, .num_local_ranks = 2}).device.index, 1);
  EXPECT_THAT(refusal({.local_rank = 3, .num_local_ranks = 4}),
              AllOf(HasSubstr("4 ranks were started on this machine, which shows 2 GPUs"),
                    HasSubstr("start at most 2 ranks a machine"), HasSubstr("parallel.share_device = true")));
}

TEST_F(CudaLaunch, RanksShareGpusInTurn) {
  emulation::set_device_count(2);
  for (int rank = 0; rank < 5; ++rank) {
    const RankPlacement placement{.local_rank = rank, .num_local_ranks = 5, .num_gpus = 2, .may_share = true};
    EXPECT_EQ(gpu_of_rank(placement), (Device{DeviceType::kCuda, rank % 2}));
  }
  // Ranks that need not share do not: NCCL keeps its fast links.
  const RankPlacement enough{.local_rank = 1, .num_local_ranks = 2, .num_gpus = 2, .may_share = true};
  EXPECT_FALSE(enough.shares());
  EXPECT_EQ(gpu_of_rank(enough).index, 1);
}

TEST_F(CudaLaunch, RanksThatShareAGpuShareItsMemory) {
  emulation::set_device_count(2);
  const auto limit_of = [](bool share, int ranks) {
    JobConfig config;
    config.parallel.share_device = share;
    return memory_limit(config, {DeviceType::kCuda, 1}, ranks);
  };
  const std::int64_t card = limit_of(false, 1).bytes;
  EXPECT_GT(card, 0);
  EXPECT_EQ(limit_of(true, 2).bytes, card);
  EXPECT_EQ(limit_of(true, 5).bytes, card / 3);  // three of them on GPU 0
  EXPECT_THAT(limit_of(true, 5).source, HasSubstr("for each of 3 ranks"));
  EXPECT_EQ(limit_of(false, 5).bytes, card);
}

// The facts that library plans depend on. They are recorded in checkpoints and compared between ranks.
TEST_F(CudaLaunch, TheCardAndItsLibrariesDecideBits) {
  const auto facts = arithmetic_of({DeviceType::kCuda, 0});
  EXPECT_THAT(facts.at("GPU"), ContainsRegex(".+, sm_[0-9]+, [0-9]+ multiprocessors"));
  for (const char* library : {"driver", "toolkit", "cuBLASLt"})
    EXPECT_TRUE(facts.contains(library)) << library;
}

// Card memory that is used outside the tensors' allocations, here by another owner.
TEST_F(CudaLaunch, ContextAndLibrariesAreMeasured) {
  const std::int64_t card = std::int64_t{1} << 30, other = std::int64_t{10} << 20;
  emulation::set_memory_limit(static_cast<std::size_t>(card));
  void* data = nullptr;
  ASSERT_EQ(cudaMalloc(&data, static_cast<std::size_t>(other)), cudaSuccess);
  const DeviceRates rates =
      measure_device_rates({DeviceType::kCuda, 0}, 1, {.product = 64, .copy_bytes = 4096, .ms = 1});
  EXPECT_EQ(rates.context_bytes, other);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST_F(CudaLaunch, OutOfMemoryNamesTheKeysThatHelp) {
  JobConfig config{.data = {.kind = DataKind::kSynthetic},
                   .train = {.steps = 1, .global_batch = 4, .micro_batch = 4}};
  config.model = {.layers = 2, .hidden = 32, .heads = 2, .vocab = 61, .seq_len = 16};
  const auto train = [&](std::size_t card_bytes) {
    const testing::TemporaryFolder folder;
    emulation::set_memory_limit(card_bytes);
    return error_message(
        [&] {
          const StopRequest stop;
          RunOptions options;
          options.config = config;
          options.blocks = build_blocks(config.model);
          options.out = folder / "out";
          options.comm = LocalWorld(1).communicator(0);
          options.device = {DeviceType::kCuda, 0};
          Trainer(start_run(std::move(options)), stop).run();
        },
        ErrorCode::kOutOfMemory);
  };
  // First nothing fits, not even parameters. Then parameters fit, but not the first step's products.
  EXPECT_THAT(train(1 << 20),
              AllOf(HasSubstr("out of memory on cuda:0"), HasSubstr("(param_store) do not fit"),
                    HasSubstr("train.micro_batch = 2 or parallel.recompute_every = 1 would reduce "
                              "activations")));
  EXPECT_THAT(train(8 << 20),
              AllOf(ContainsRegex("rank 0, step 1, action [0-9]+ .* of block 'blocks.0': out of memory"),
                    HasSubstr("parallel.zero = 1 on more ranks would reduce optimizer")));
}

}  // namespace
}  // namespace trireme
