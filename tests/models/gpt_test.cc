#include "models/gpt.h"

#include <gtest/gtest.h>

#include "parallel/layout/model_layout.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::int64_t parameters_of(const GptConfig& config) {
  return make_layout(build_gpt(config)).num_parameters;
}

// Counted from the published checkpoints of Radford et al. 2019 with a tied head.
TEST(Gpt, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of(gpt_config_for_size("124m")), 124439808);
  EXPECT_EQ(parameters_of(gpt_config_for_size("350m")), 354823168);
  EXPECT_EQ(parameters_of(gpt_config_for_size("774m")), 774030080);
  EXPECT_EQ(parameters_of(gpt_config_for_size("1.5b")), 1557611200);
  // 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)), plus the final norm's 2 h (Narayanan et al. 2021).
  EXPECT_EQ(parameters_of(gpt_config_for_size("13b")),
            40LL * (12LL * 5120 * 5120 + 13 * 5120) + (50257LL + 2048) * 5120 + 2 * 5120);
}

TEST(Gpt, UntiedHeadAddsATable) {
  const GptConfig tied{.layers = 1, .hidden = 8, .heads = 2, .vocab = 11, .seq_len = 4};
  GptConfig untied = tied;
  untied.tied = false;
  EXPECT_EQ(parameters_of(untied) - parameters_of(tied), 11 * 8);
}

TEST(Gpt, RefusesWhatCannotBeBuilt) {
  EXPECT_THROW(gpt_config_for_size("7b"), Error);
  EXPECT_THROW(build_gpt({.hidden = 10, .heads = 3}), Error);
  EXPECT_THROW(build_gpt({.layers = 0}), Error);
  EXPECT_THROW(build_gpt({.layers = 2000000000}), Error);
}

TEST(ModelLayout, TiedTableHasItsOwnGroupAndABucketForEachUse) {
  const ModelLayout layout =
      make_layout(build_gpt({.layers = 1, .hidden = 8, .heads = 2, .vocab = 11, .seq_len = 4}));
  ASSERT_EQ(layout.groups.size(), 4u);
  EXPECT_EQ(layout.groups[0].name, "embedding.tokens");
  EXPECT_EQ(layout.groups[1].name, "embedding");
  ASSERT_EQ(layout.buckets.size(), 5u);
  EXPECT_EQ(layout.buckets[3].group, 0);
  EXPECT_EQ(layout.buckets[3].use, 1);
  std::int64_t next = 0;
  for (const ParamGroup& group : layout.groups) {
    EXPECT_EQ(group.first_norm_block, next);
    next += group.num_elems / kNormBlock;
    for (const ParamSlot& slot : group.slots) EXPECT_EQ(slot.offset % kNormBlock, 0) << slot.name;
  }
  EXPECT_EQ(layout.num_norm_blocks, next);
}

class Declares final : public Block {
 public:
  Declares(std::string name, std::vector<ParameterSpec> specs) : Block(std::move(name)) {
    for (ParameterSpec& spec : specs) declare(std::move(spec));
  }
  Activations forward(Context&, const Activations& input, const Batch&) const override { return input; }
};

TEST(ModelLayout, RefusesBadTiesAndDoubleNames) {
  const auto layout_of = [](std::vector<ParameterSpec> first, std::vector<ParameterSpec> second) {
    BlockList blocks;
    blocks.push_back(std::make_unique<Declares>("a", std::move(first)));
    blocks.push_back(std::make_unique<Declares>("b", std::move(second)));
    return make_layout(blocks);
  };
  EXPECT_THROW(layout_of({{.name = "w", .shape = {2}}, {.name = "w", .shape = {2}}}, {}), Error);
  EXPECT_THROW(layout_of({{.name = "w", .shape = {2}}}, {{.name = "v", .shape = {2}, .tied_to = "a.x"}}),
               Error);
  EXPECT_THROW(layout_of({{.name = "w", .shape = {2}}}, {{.name = "v", .shape = {3}, .tied_to = "a.w"}}),
               Error);
  EXPECT_NO_THROW(layout_of({{.name = "w", .shape = {2}}}, {{.name = "v", .shape = {2}, .tied_to = "a.w"}}));
}

}  // namespace
}  // namespace trireme
