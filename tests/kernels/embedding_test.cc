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
  // The table of one row has more tokens than one block adds on cuda, that of three has buckets of all sizes.
  for (const Case& c : {Case{1, 1, 3, 1, 2}, Case{4, 50, 7, 127, 60}, Case{3, 100, 1000, 200, 100},
                        Case{5, 77, 1, 40, 80}, Case{7, 60, 3, 264, 60}}) {
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

// Pieces of a table, one after the other, or each into its own x that are added afterwards. Both give the
// bits of the whole table.
TEST_P(EmbeddingTest, InPieces) {
  constexpr std::int64_t kSamples = 3, kSeqLen = 20, kPieces = 4, kRows = 5, kCols = 33,
                         kVocab = kPieces * kRows;
  const auto tokens = random_ints(kSamples * kSeqLen, 0, kVocab - 1);
  for (const DType dtype : kFloatTypes) {
    auto table = random(kVocab * kCols, 1.0f, dtype);
    for (std::size_t i = 0; i < table.size(); i += 7) table[i] = -0.0f;
    const auto positions = random(kSeqLen * kCols, 1.0f, dtype);
    const auto dx = random(kSamples * kSeqLen * kCols, 1.0f, dtype);
    const auto run = [&](bool together) {
      return same_bits_for_all_threads([&](const Rig& rig) -> Outputs {
        const DeviceArray dev_tokens = rig.upload({kSamples, kSeqLen}, tokens);
        const DeviceArray dev_positions = rig.upload({kSeqLen, kCols}, positions, dtype);
        const DeviceArray dev_dx = rig.upload({kSamples, kSeqLen, kCols}, dx, dtype);
        const std::vector<float> nothing(kSamples * kSeqLen * kCols, 0.0f);
        std::vector<DeviceArray> xs;
        Outputs out(2);
        for (std::int64_t p = 0; p < kPieces; ++p) {
          const auto begin = table.begin() + p * kRows * kCols;
          const std::vector<float> rows(begin, begin + kRows * kCols);
          if (p == 0 || !together) xs.push_back(rig.upload({kSamples, kSeqLen, kCols}, nothing, dtype));
          const DeviceArray piece = rig.upload({kRows, kCols}, rows, dtype);
          EmbeddingFwdArgs args{
              .tokens = dev_tokens, .table = piece, .x = xs.back(), .first_id = p * kRows, .num_ids = kVocab};
          if (p == 0) args.positions = dev_positions;
          rig.run(args);
          const DeviceArray dtable = rig.poisoned({kRows, kCols});
          rig.run(EmbeddingBwdArgs{.dx = dev_dx,
                                   .tokens = dev_tokens,
                                   .dtable = dtable,
                                   .dpositions_mode = GradientMode::kIgnore,
                                   .first_id = p * kRows});
          const auto gradient = dtable.download();
          out[1].insert(out[1].end(), gradient.begin(), gradient.end());
        }
        out[0] = xs[0].download();
        for (std::size_t i = 1; i < xs.size(); ++i) {
          const auto more = xs[i].download();
          for (std::size_t j = 0; j < more.size(); ++j) out[0][j] += more[j];
        }
        for (float& value : out[0]) value = rounded(value, dtype);
        return out;
      });
    };
    const Outputs together = run(true), apart = run(false);
    EXPECT_TRUE(same_bits(together[0], apart[0])) << name(dtype);
    EXPECT_TRUE(same_bits(together[1], apart[1])) << name(dtype);
    std::vector<double> dtable(kVocab * kCols, 0.0);
    for (std::int64_t i = 0; i < kSamples * kSeqLen * kCols; ++i) {
      const std::int64_t row = i / kCols, col = i % kCols;
      const float sum = table[tokens[row] * kCols + col] + positions[row % kSeqLen * kCols + col];
      ASSERT_EQ(together[0][i], rounded(sum, dtype)) << name(dtype) << i;
      dtable[tokens[row] * kCols + col] += dx[i];
    }
    expect_close(together[1], dtable, kBackwardTolerance, "dtable");
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
    const auto piece = [&] {
      rig.run(EmbeddingFwdArgs{.tokens = tokens, .table = table, .x = x, .first_id = 0, .num_ids = 7});
    };
    for (const std::string& message : {message_of(forward), message_of(backward), message_of(piece)}) {
      EXPECT_NE(message.find(words), std::string::npos) << message;
    }
    x.download();  // checks the guard bytes
  }
}

TRIREME_INSTANTIATE_KERNEL_TEST(EmbeddingTest);

}  // namespace
}  // namespace trireme::testing
