#include "models/bert.h"

#include <gtest/gtest.h>

#include "parallel/layout/model_layout.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::int64_t parameters_of(std::string_view size, std::int64_t classes = 0) {
  BertConfig config = bert_config_for_size(size);
  config.classes = classes;
  return make_layout(build_bert(config)).num_parameters;
}

// Published: the uncased encoders with their pooler, 4,385,920 (Turc et al. 2019), 109,482,240 and
// 335,141,888. The masked language modelling head replaces the pooler, which is one matrix and bias, by a
// transform, its norm and a bias.
std::int64_t with_masked_head(std::int64_t published, std::int64_t hidden) {
  const std::int64_t pooler = hidden * hidden + hidden, transform = pooler, norm = 2 * hidden, bias = 30522;
  return published - pooler + transform + norm + bias;
}

TEST(Bert, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of("tiny"), with_masked_head(4385920, 128));
  EXPECT_EQ(parameters_of("base"), with_masked_head(109482240, 768));
  EXPECT_EQ(parameters_of("large"), with_masked_head(335141888, 1024));
}

TEST(Bert, AClassifierIsTheEncoderItsPoolerAndOneMatrix) {
  EXPECT_EQ(parameters_of("tiny", 3), 4385920 + 3 * 128 + 3);
  EXPECT_EQ(parameters_of("base", 2), 109482240 + 2 * 768 + 2);
  EXPECT_EQ(parameters_of("large", 2), 335141888 + 2 * 1024 + 2);
}

TEST(Bert, RefusesWhatCannotBeBuilt) {
  const BertConfig tiny{.layers = 1, .hidden = 24, .heads = 4, .vocab = 5, .seq_len = 4};
  EXPECT_NO_THROW(build_bert(tiny));
  const auto refused = [&](auto change) {
    BertConfig config = tiny;
    change(config);
    EXPECT_THROW(build_bert(config), Error);
  };
  refused([](BertConfig& c) { c.heads = 5; });
  refused([](BertConfig& c) { c.vocab = 0; });
  refused([](BertConfig& c) { c.classes = -1; });
  refused([](BertConfig& c) { c.layers = 2000000000; });
  EXPECT_THROW(bert_config_for_size("124m"), Error);
}

}  // namespace
}  // namespace trireme
