#include "models/lstm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/layout/model_layout.h"
#include "parallel/layout/parameter_rules.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;

std::int64_t lstm_parameters(LstmConfig config) {
  return make_layout(build_lstm(config)).num_parameters;
}

// The medium and the large model of Zaremba et al. 2014: embedding and head of 10,000 words, two biases a
// layer.
TEST(Lstm, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(lstm_parameters(lstm_config_for_size("ptb-medium")), 19'780'400);
  EXPECT_EQ(lstm_parameters(lstm_config_for_size("ptb-large")), 66'034'000);
  LstmConfig characters = lstm_config_for_size("char");
  characters.vocab = 65;
  EXPECT_EQ(lstm_parameters(characters), 65 * 512 + 2 * (2 * 4 * 512 * 512 + 2 * 4 * 512) + 65 * 512 + 65);
  LstmConfig tied = lstm_config_for_size("ptb-medium");
  tied.tied = true;
  EXPECT_EQ(lstm_parameters(tied), 19'780'400 - 650 * 10'000);
}

TEST(Lstm, HasTheNamesOfPyTorch) {
  const BlockList blocks = build_lstm({.layers = 2, .hidden = 6, .embedding_size = 3, .vocab = 5});
  EXPECT_THAT(parameter_names(blocks),
              ElementsAre("encoder.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0",
                          "rnn.bias_hh_l0", "rnn.weight_ih_l1", "rnn.weight_hh_l1", "rnn.bias_ih_l1",
                          "rnn.bias_hh_l1", "decoder.weight", "decoder.bias"));
  const auto shape = [&](std::size_t block, std::size_t i) { return blocks[block]->parameters()[i].shape; };
  EXPECT_EQ(shape(0, 0), Shape({5, 3}));
  EXPECT_EQ(shape(1, 0), Shape({24, 3}));
  EXPECT_EQ(shape(2, 0), Shape({24, 6}));
  EXPECT_EQ(shape(2, 1), Shape({24, 6}));
}

TEST(Lstm, RefusesWhatCannotBeBuilt) {
  const LstmConfig tiny{.layers = 1, .hidden = 6, .embedding_size = 3, .vocab = 5, .seq_len = 4};
  EXPECT_NO_THROW(build_lstm(tiny));
  const auto refused = [&](auto change) {
    LstmConfig config = tiny;
    change(config);
    EXPECT_THROW(build_lstm(config), Error);
  };
  refused([](LstmConfig& c) { c.layers = 0; });
  refused([](LstmConfig& c) { c.layers = 2000000000; });
  refused([](LstmConfig& c) { c.embedding_size = 0; });
  refused([](LstmConfig& c) { c.vocab = 0; });
  refused([](LstmConfig& c) { c.tied = true; });
  EXPECT_THROW(lstm_config_for_size("ptb-small"), Error);
}

}  // namespace
}  // namespace trireme
