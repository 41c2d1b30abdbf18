// Large copies to the GPU while work of the compute stream is pending: [Note: uploads], [Note: held streams].
#include <gtest/gtest.h>

#include <numeric>

#include "kernels/cuda/device/upload_stream.h"
#include "tests/kernels/cuda/emulation/emulation.h"
#include "tests/kernels/kernel_test.h"

namespace trireme::testing {
namespace {

using cuda::UploadStream;

constexpr std::int64_t kPiece = UploadStream::kPieceBytes / sizeof(std::int32_t);

struct UploadTest : ::testing::TestWithParam<bool> {
  ~UploadTest() override { emulation::hold_new_streams(false); }

  const Rig rig{DeviceType::kCuda, 1};
  void* const compute = rig->native_stream(rig.exec());

  TensorView allocate(const Shape& shape) {
    const auto bytes = static_cast<std::size_t>(shape.num_elems()) * sizeof(std::int32_t);
    memory_.emplace_back(rig.shared_allocator(), bytes, MemoryCategory::kBatch);
    return {memory_.back().data(), DType::kInt32, shape};
  }
  static TensorView element(const TensorView& view, std::int64_t i) {
    return {view.as<std::int32_t>() + i, DType::kInt32, {1}};
  }

 private:
  std::vector<Buffer> memory_;
};

// All batches go to one destination. The compute stream must read each batch before the next one overwrites
// it. The source changes immediately after the call. The number of batches forces buffers to be reused. The
// upload stream runs ahead of the compute stream, or behind it.
TEST_P(UploadTest, ArrivesInTheOrderOfTheComputeStream) {
  emulation::hold_new_streams(GetParam());
  emulation::hold(compute, true);
  constexpr std::int64_t kElems = 2 * kPiece + 1001, kRounds = 20;
  const std::int64_t places[] = {0, kPiece - 1, kPiece, 2 * kPiece + 1000};
  const TensorView batch = allocate({kElems}), seen = allocate({kRounds, 4});
  std::vector<std::int32_t> source(kElems);
  for (std::int32_t round = 0; round < kRounds; ++round) {
    for (std::int64_t p = 0; p < 4; ++p) source[places[p]] = 10 * round + static_cast<std::int32_t>(p);
    rig->copy_from_host(rig.exec(), batch, source.data());
    for (std::int64_t p = 0; p < 4; ++p) {
      source[places[p]] = -1;
      rig->copy(rig.exec(), element(seen, round * 4 + p), element(batch, places[p]));
    }
  }
  std::vector<std::int32_t> values(kRounds * 4);
  rig->copy_to_host(rig.exec(), values.data(), seen);
  for (std::int32_t i = 0; i < kRounds * 4; ++i) EXPECT_EQ(values[i], 10 * (i / 4) + i % 4) << i;
}

INSTANTIATE_TEST_SUITE_P(UploadStream, UploadTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "IsLate" : "IsAhead"; });

// The bytes reach the GPU while work of the compute stream is pending, and the host does not wait.
TEST_F(UploadTest, GoesOnBesideTheComputeStream) {
  const TensorView batch = allocate({3 * kPiece});
  const std::vector<std::int32_t> source(3 * kPiece, 7);
  emulation::hold(compute, true);
  rig->copy_from_host(rig.exec(), batch,
                      source.data());  // allocates the buffers, in the order of the compute stream
  rig->synchronize(rig.exec());
  rig->fill_zero(rig.exec(), batch);
  const long waits = emulation::counts().waits, uploads = emulation::counts().uploads;
  rig->copy_from_host(rig.exec(), batch, source.data());
  EXPECT_EQ(emulation::counts().uploads, uploads + 3);
  EXPECT_EQ(emulation::counts().waits, waits);
  rig->synchronize(rig.exec());
  const emulation::DeviceAccess access;
  EXPECT_EQ(batch.as<std::int32_t>()[3 * kPiece - 1], 7);
}

TEST_F(UploadTest, AHostFarAheadWaitsForTheOldestOnly) {
  emulation::hold(compute, true);
  const TensorView batch = allocate({kPiece});
  const std::vector<std::int32_t> source(kPiece, 7);
  const auto before = emulation::counts();
  for (std::size_t i = 0; i < UploadStream::kLeastPieces; ++i)
    rig->copy_from_host(rig.exec(), batch, source.data());
  EXPECT_EQ(emulation::counts().waits, before.waits);
  rig->copy_from_host(rig.exec(), batch, source.data());
  EXPECT_EQ(emulation::counts().waits, before.waits + 1);
  EXPECT_EQ(emulation::counts().event_waits, before.event_waits + 1) << "it waited for the stream";
  EXPECT_EQ(rig.allocator().stats().current[MemoryCategory::kWorkspace],
            static_cast<std::int64_t>(UploadStream::kLeastPieces * UploadStream::kPieceBytes));
  EXPECT_EQ(rig.allocator().stats().peak_total, static_cast<std::int64_t>(UploadStream::kPieceBytes));
}

// After prepare_uploads() a batch has a buffer for each of its pieces; several threads copy to the buffers.
TEST_F(UploadTest, ABatchWaitsForNoStepBeforeIt) {
  constexpr std::int64_t kPieces = 40;
  const Rig threads(DeviceType::kCuda, 3);
  const TensorView batch = allocate({kPieces * kPiece - 5});
  std::vector<std::int32_t> source(static_cast<std::size_t>(batch.num_elems()));
  std::iota(source.begin(), source.end(), 0);
  emulation::hold(threads->native_stream(threads.exec()), true);
  threads->prepare_uploads(threads.exec(), source.size() * sizeof(std::int32_t));
  threads->synchronize(threads.exec());
  const auto before = emulation::counts();
  threads->copy_from_host(threads.exec(), batch, source.data());
  EXPECT_EQ(emulation::counts().waits, before.waits);
  EXPECT_EQ(emulation::counts().pinned, before.pinned);
  EXPECT_EQ(emulation::counts().uploads, before.uploads + kPieces);
  EXPECT_EQ(threads.allocator().stats().current[MemoryCategory::kWorkspace],
            static_cast<std::int64_t>(kPieces * UploadStream::kPieceBytes));
  std::vector<std::int32_t> arrived(source.size());
  threads->copy_to_host(threads.exec(), arrived.data(), batch);
  EXPECT_EQ(arrived, source);
}

// The allocator reuses memory in the order of the compute stream, so pending work may still write to a
// buffer.
TEST_F(UploadTest, BuffersAreFreshForTheUploadToo) {
  emulation::hold(compute, true);
  const TensorView batch = allocate({kPiece});
  void* const before = rig.allocator().allocate(UploadStream::kPieceBytes, MemoryCategory::kWorkspace);
  rig->fill_zero(rig.exec(), {before, DType::kInt32, {kPiece}});
  rig.allocator().deallocate(before, UploadStream::kPieceBytes, MemoryCategory::kWorkspace);
  const std::vector<std::int32_t> source(kPiece, 7);
  rig->copy_from_host(rig.exec(), batch, source.data());
  rig->synchronize(rig.exec());
  const emulation::DeviceAccess access;
  EXPECT_EQ(batch.as<std::int32_t>()[kPiece / 2], 7);
}

}  // namespace
}  // namespace trireme::testing
