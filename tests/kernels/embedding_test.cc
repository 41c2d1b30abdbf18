#include <array>
#include <limits>
#include <string>

#include "tests/kernels/kernel_test.h"
#include "tests/support/temporary_folder.h"

namespace trireme::testing {
namespace {

struct Case {
  std::int64_t samples, seq_len, vocab, cols, num_positions;
};

class EmbeddingTest : public KernelTest {
 protected:
  void backward_in_every_mode(DType dtype);
};

TEST_P(EmbeddingTest, Forward) {
  for (const Case& c :
       {Case{1, 1, 1, 1, 1}, Case{2, 3, 7, 127, 5}, Case{3, 100, 1000, 33, 100}, Case{1, 3, 5, 4099, 3}}) {
    const auto tokens = random_ints(c.samples * c.seq_len, 0, static_cast<int>(c.vocab) - 1);
    for (const DType dtype : kFloatTypes) {
      const auto table = random(c.vocab * c.cols, 1.0f, dtype);
      const auto positions = random(c.num_positions * c.cols, 1.0f, dtype);
      for (const bool with_positions : {false, true}) {
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const DeviceArray x = rig.poisoned({c.samples, c.seq_len, c.cols}, dtype);
          const DeviceArray dev_positions = rig.upload({c.num_positions, c.cols}, positions, dtype);
          EmbeddingFwdArgs args{.x = x};
          const DeviceArray dev_tokens = rig.upload({c.samples, c.seq_len}, tokens);
          const DeviceArray dev_table = rig.upload({c.vocab, c.cols}, table, dtype);
          args.tokens = dev_tokens;
          args.table = dev_table;
          if (with_positions) args.positions = dev_positions;
          rig.run(args);
          return {x.download()};
        });
        for (std::int64_t i = 0; i < c.samples * c.seq_len * c.cols; ++i) {
          const std::int64_t row = i / c.cols, col = i % c.cols;
          const float position = with_positions ? positions[row % c.seq_len * c.cols + col] : 0.0f;
          ASSERT_EQ(out[0][i], rounded(table[tokens[row] * c.cols + col] + position, dtype))
              << name(dtype) << i;
        }
      }
    }
  }
}

TEST_P(EmbeddingTest, BackwardInEveryMode) {
  for (const DType dtype : kFloatTypes) backward_in_every_mode(dtype);
}

void EmbeddingTest::backward_in_every_mode(DType dtype) {
  constexpr GradientMode kModes[] = {GradientMode::kOverwrite, GradientMode::kAccumulate,
                                     GradientMode::kIgnore};
  for (const Case& c : {Case{1, 1, 3, 1, 2}, Case{4, 50, 7, 127, 60}, Case{3, 100, 1000, 200, 100}}) {
    const auto tokens = random_ints(c.samples * c.seq_len, 0, static_cast<int>(c.vocab) - 1);
    const auto dx = random(c.samples * c.seq_len * c.cols, 1.0f, dtype);
    const auto table_start = random(c.vocab * c.cols), positions_start = random(c.num_positions * c.cols);
    std::vector<double> dtable(c.vocab * c.cols, 0.0), dpositions(c.num_positions * c.cols, 0.0);
    for (std::int64_t i = 0; i < c.samples * c.seq_len * c.cols; ++i) {
      dtable[tokens[i / c.cols] * c.cols + i % c.cols] += dx[i];
      dpositions[i / c.cols % c.seq_len * c.cols + i % c.cols] += dx[i];
    }
    for (const GradientMode table_mode : kModes) {
      for (const GradientMode positions_mode : kModes) {
        SCOPED_TRACE(fmt::format("{} V {} C {} modes {} {}", name(dtype), c.vocab, c.cols,
                                 static_cast<int>(table_mode), static_cast<int>(positions_mode)));
        const Outputs out = same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
          const auto start = [&](GradientMode mode, const Shape& shape, const std::vector<float>& values) {
            return mode == GradientMode::kAccumulate ? rig.upload(shape, values) : rig.poisoned(shape);
          };
          const DeviceArray table = start(table_mode, {c.vocab, c.cols}, table_start);
          const DeviceArray positions = start(positions_mode, {c.num_positions, c.cols}, positions_start);
          const DeviceArray dev_dx = rig.upload({c.samples, c.seq_len, c.cols}, dx, dtype);
          const DeviceArray dev_tokens = rig.upload({c.samples, c.seq_len}, tokens);
          EmbeddingBwdArgs args{.dx = dev_dx, .tokens = dev_tokens};
          if (table_mode != GradientMode::kIgnore) args.dtable = table;
          if (positions_mode != GradientMode::kIgnore) args.dpositions = positions;
          args.dtable_mode = table_mode;
          args.dpositions_mode = positions_mode;
          rig.run(args);
          return {table.download(), positions.download()};
        });
        if (table_mode != GradientMode::kIgnore) {
          expect_close(out[0], accumulated(dtable, table_start, table_mode), kBackwardTolerance, "dtable");
        }
        if (positions_mode != GradientMode::kIgnore) {
          expect_close(out[1], accumulated(dpositions, positions_start, positions_mode), kBackwardTolerance,
                       "dpositions");
        }
      }
    }
  }
}

TEST_P(EmbeddingTest, AnIdBeyondTheTableIsRefused) {
  if (GetParam() != DeviceType::kCpu) GTEST_SKIP() << "ids on a GPU are not checked: the host would wait";
  for (const std::int32_t wrong : {7, 70000, -1, std::numeric_limits<std::int32_t>::max()}) {
    const Rig rig(GetParam(), 2);
    const DeviceArray tokens = rig.upload({1, 3}, std::vector<std::int32_t>{0, wrong, 6});
    const DeviceArray table = rig.upload({7, 4}, random(28)), x = rig.poisoned({1, 3, 4});
    const DeviceArray dtable = rig.poisoned({7, 4}), dx = rig.upload({1, 3, 4}, random(12));
    const auto forward = [&] { rig.run(EmbeddingFwdArgs{.tokens = tokens, .table = table, .x = x}); };
    const auto backward = [&] {
      rig.run(EmbeddingBwdArgs{.dx = dx,
                               .tokens = tokens,
                               .dtable = dtable,
                               .dtable_mode = GradientMode::kOverwrite,
                               .dpositions_mode = GradientMode::kIgnore});
    };
    const std::string words = fmt::format("token id {} at index 1 of [1, 3] is not in [0, 7)", wrong);
    for (const std::string& message : {message_of(forward), message_of(backward)}) {
      EXPECT_NE(message.find(words), std::string::npos) << message;
    }
    x.download();  // nothing beside it was written
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(EmbeddingTest);

}  // namespace
}  // namespace trireme::testing
