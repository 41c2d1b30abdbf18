// The chunked exchange of whole gradients: the chunks of a bucket, the order of its two phases, and unchanged
// sums.
#include "parallel/reduce/exchange_chunks.h"

#include <gtest/gtest.h>

#include "parallel/comm/recording.h"
#include "parallel/reduce/grad_accumulator.h"
#include "tests/support/local_ranks.h"
#include "tests/support/recorded_calls.h"

namespace trireme {
namespace {

// A block whose parameter has many chunks, the last one shorter.
class Matrix final : public Block {
 public:
  Matrix() : Block("matrix") { declare({.name = "weight", .shape = {401, 1024}, .init = {}}); }
  Activations forward(Context&, const Activations& input, const Batch&) const override { return input; }
};

TEST(ExchangeChunks, CoverTheBucketInWholeNormBlocksForEachRank) {
  for (const int ranks : {2, 3, 4, 64}) {
    for (const std::int64_t elem_bytes : {2, 4}) {
      for (const std::int64_t blocks : {1, 14, 15, 16, 31, 240, 241, 5000}) {
        const std::int64_t unit = kNormBlock * ranks;
        const auto chunks =
            cut_exchange({.num_elems = blocks * unit, .elem_bytes = elem_bytes, .ranks = ranks});
        ASSERT_LE(chunks.size(), 16u);
        std::int64_t end = 0;
        for (const Chunk& chunk : chunks) {
          EXPECT_EQ(chunk.first, end);
          EXPECT_EQ(chunk.num_elems % unit, 0);
          end += chunk.num_elems;
          const bool is_last = end == blocks * unit;
          EXPECT_TRUE(is_last || chunk.num_elems / ranks * elem_bytes >= 60 << 10);
        }
        EXPECT_EQ(end, blocks * unit) << ranks << " ranks, " << blocks << " norm blocks each";
      }
    }
  }
}

TEST(ExchangeChunks, AreManyWhereTheBucketIsLongAndOneWhereItIsShort) {
  const std::int64_t unit = kNormBlock * 4;
  const auto chunks = [&](std::int64_t blocks) {
    return cut_exchange({.num_elems = blocks * unit, .elem_bytes = 4, .ranks = 4}).size();
  };
  EXPECT_EQ(chunks(15), 1u);
  EXPECT_EQ(chunks(16), 2u);
  EXPECT_EQ(chunks(5000), 16u);
}

Tensor in_fp32(Context& ctx, const Tensor& values) {
  if (values.dtype() == DType::kFloat32) return values;
  const Tensor wide = ctx.empty(values.shape());
  ctx.run(CastArgs{.x = values, .y = wide});
  return wide;
}

// Runs one step, in which element e of micro-batch g has a distinct value. Returns the whole gradient.
Tensor reduce_step(Context& ctx, const DataAxis& axis, DType dtype, std::int64_t micro_batches = 12) {
  const Communicator& comm = axis.all();
  BlockList blocks;
  blocks.push_back(std::make_unique<Matrix>());
  const ModelLayout layout = make_layout(blocks);
  const BatchLayout batch{.global_batch = micro_batches, .data_ranks = comm.size()};
  GradAccumulator gradients(layout, batch, {.cut_exchanges = true, .dtype = dtype}, axis);
  for (int m = 0; m < batch.per_rank(); ++m) {
    gradients.begin(ctx, 0, m);
    const Tensor leaf = gradients.target(layout.uses[0][0]).tensor;
    const auto g = static_cast<float>(batch.global_micro_batch(comm.rank(), m));
    for (std::int64_t e = 0; e < leaf.num_elems() && comm.device_type() == DeviceType::kCpu; ++e) {
      static_cast<float*>(leaf.data())[e] = 1.0f / (1.0f + static_cast<float>(e % 1009) + 3.7f * g);
    }
    gradients.end(ctx, 0, m);
  }
  if (axis.is_hierarchical()) gradients.start_reduce_in_host(ctx, 0, -1);
  gradients.start_reduce(ctx, 0, -1);
  if (comm.size() > 1) gradients.start_gather(ctx, 0);
  if (axis.is_hierarchical()) gradients.start_gather_in_host(ctx, 0);
  gradients.finish(ctx);
  return gradients.gradient(0);
}

// All chunks are sent to their owners before the first sum is gathered, and each sum is gathered separately.
TEST(ExchangeChunks, AreSummedAndGatheredEachOnItsOwn) {
  Context ctx = Context::create({DeviceType::kMeta}, 1);
  RecordingCommunicator comm(1, 4);
  (void)reduce_step(ctx, comm, DType::kFloat32);
  std::vector<CallKind> kinds, expected;
  for (const RecordedCall& call : comm.calls()) kinds.push_back(call.kind);
  // 101 norm blocks per rank, 15 in a chunk; three micro-batches per rank leave two partial sums.
  expected.insert(expected.end(), 2 * 7, CallKind::kAllToAll);
  expected.insert(expected.end(), 7, CallKind::kAllGather);
  EXPECT_EQ(kinds, expected);
  const std::int64_t whole = 4 * kNormBlock * 4 * 101;
  EXPECT_EQ(testing::traffic_of(comm, CallKind::kAllToAll).sent_bytes, 2 * whole / 4 * 3);
  EXPECT_EQ(testing::traffic_of(comm, CallKind::kAllGather).sent_bytes, whole / 4 * 3);
}

// With 12 micro-batches on 2 or 4 ranks, a rank has two partial sums, which are exchanged in two rounds.
TEST(ExchangeChunks, ChangeNoBitOfTheSum) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    std::vector<float> expected;
    run_local_contexts(1, [&](LocalRank& rank) {
      expected = rank.ctx.to_host(in_fp32(rank.ctx, reduce_step(rank.ctx, *rank.comm, dtype)));
    });
    for (const int ranks : {2, 3, 4}) {
      run_local_contexts(ranks, [&](LocalRank& rank) {
        const Tensor sum = in_fp32(rank.ctx, reduce_step(rank.ctx, *rank.comm, dtype));
        EXPECT_TRUE(rank.ctx.to_host(sum) == expected) << ranks << " ranks, " << name(dtype);
      });
    }
  }
}

// On two levels, each chunk is summed within the host and then over hosts, and gathered over both.
TEST(ExchangeChunks, ChangeNoBitOnTwoLevels) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const auto& [ranks, per_host] : {std::pair{4, 2}, {6, 2}, {8, 4}}) {
      const std::int64_t micro_batches = 2 * ranks;
      std::vector<float> expected;
      run_local_contexts(1, [&](LocalRank& rank) {
        expected =
            rank.ctx.to_host(in_fp32(rank.ctx, reduce_step(rank.ctx, *rank.comm, dtype, micro_batches)));
      });
      run_local_contexts(ranks, [&](LocalRank& rank) {
        const MeshGroups groups = split_mesh(rank.comm, {{Axis::kData, ranks}}, per_host);
        const Tensor sum = in_fp32(rank.ctx, reduce_step(rank.ctx, DataAxis(groups), dtype, micro_batches));
        EXPECT_TRUE(rank.ctx.to_host(sum) == expected) << ranks << " ranks, " << name(dtype);
      });
    }
  }
}

}  // namespace
}  // namespace trireme
