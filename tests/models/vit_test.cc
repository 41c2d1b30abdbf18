#include "models/vit.h"

#include <gtest/gtest.h>

#include <set>

#include "models/cct.h"
#include "parallel/layout/model_layout.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::int64_t parameters_of(std::string_view size, std::int64_t patch) {
  VitConfig config = vit_config_for_size(size);
  config.patch = patch;
  return make_layout(build_vit(config)).num_parameters;
}

// At 224 x 224 pixels and 1000 classes. From torchvision's vit_b_16, vit_l_16 and vit_h_14, and its
// VisionTransformer with the other shapes. Ti/16 and S/16 match Touvron et al. 2021 (DeiT: 5.7 and 22.1 M).
TEST(Vit, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of("ti", 16), 5717416);
  EXPECT_EQ(parameters_of("s", 16), 22050664);
  EXPECT_EQ(parameters_of("b", 16), 86567656);
  EXPECT_EQ(parameters_of("l", 16), 304326632);
  EXPECT_EQ(parameters_of("h", 14), 632045800);
  EXPECT_EQ(parameters_of("ti", 14), 5694376);
  EXPECT_EQ(parameters_of("s", 14), 22004584);
  EXPECT_EQ(parameters_of("b", 14), 86475496);
  EXPECT_EQ(parameters_of("l", 14), 304203752);
  EXPECT_EQ(parameters_of("h", 16), 632199400);
  EXPECT_EQ(vit_config_for_size("h").patch, 14);
}

TEST(Vit, NamesAreTorchvisions) {
  std::set<std::string> names;
  for (const auto& block : build_vit(vit_config_for_size("ti"))) {
    for (const ParameterSpec& spec : block->parameters()) names.insert(block->full_name(spec));
  }
  EXPECT_EQ(names.size(), 12u * 12 + 8);
  for (const char* name :
       {"class_token", "conv_proj.weight", "conv_proj.bias", "encoder.pos_embedding",
        "encoder.layers.encoder_layer_0.ln_1.weight",
        "encoder.layers.encoder_layer_11.self_attention.in_proj_weight",
        "encoder.layers.encoder_layer_3.self_attention.in_proj_bias",
        "encoder.layers.encoder_layer_3.self_attention.out_proj.weight",
        "encoder.layers.encoder_layer_3.mlp.0.weight", "encoder.layers.encoder_layer_3.mlp.3.bias",
        "encoder.ln.weight", "heads.head.weight", "heads.head.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Vit, MeanPoolingHasNoClassToken) {
  VitConfig config = vit_config_for_size("ti");
  config.pool = TokenPool::kMean;
  EXPECT_EQ(make_layout(build_vit(config)).num_parameters, 5717416 - 2 * 192);
}

TEST(Vit, RefusesWhatCannotBeBuilt) {
  const VitConfig tiny{.layers = 1, .hidden = 24, .heads = 4, .ffn = 8, .patch = 4, .image_size = 8};
  EXPECT_NO_THROW(build_vit(tiny));
  const auto refused = [&](auto change) {
    VitConfig config = tiny;
    change(config);
    EXPECT_THROW(build_vit(config), Error);
  };
  refused([](VitConfig& c) { c.heads = 5; });
  refused([](VitConfig& c) { c.patch = 3; });
  refused([](VitConfig& c) { c.patch = 16; });
  refused([](VitConfig& c) { c.patch = 0; });
  refused([](VitConfig& c) { c.classes = 0; });
  refused([](VitConfig& c) { c.layers = 2000000000; });
  refused([](VitConfig& c) { c.stochastic_depth = 1.0f; });
  refused([](VitConfig& c) { c.pool = TokenPool::kSequence; });
  EXPECT_THROW(vit_config_for_size("xl"), Error);
}

std::int64_t cct_parameters_of(std::string_view size) {
  return make_layout(build_cct(cct_config_for_size(size))).num_parameters;
}

// The authors' program counts 283,723 for CCT-2/3x2 with learned positions. The paper (table 1) rounds to
// 0.28, 0.48, 3.76 and 3.85 million.
TEST(Cct, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(cct_parameters_of("2/3x2"), 283723);
  const auto millions = [](std::string_view size) {
    return static_cast<double>(cct_parameters_of(size)) / 1e6;
  };
  EXPECT_NEAR(millions("4/3x2"), 0.48, 0.005);
  EXPECT_NEAR(millions("7/3x1"), 3.76, 0.05);
  EXPECT_NEAR(millions("7/3x2"), 3.85, 0.05);
}

TEST(Cct, RefusesWhatCannotBeBuilt) {
  const auto refused = [&](auto change) {
    CctConfig config;
    change(config);
    EXPECT_THROW(build_cct(config), Error);
  };
  EXPECT_NO_THROW(build_cct({}));
  refused([](CctConfig& c) { c.heads = 3; });
  refused([](CctConfig& c) { c.convs = 0; });
  refused([](CctConfig& c) { c.image_size = 0; });
  refused([](CctConfig& c) { c.stochastic_depth = -0.1f; });
  EXPECT_THROW(cct_config_for_size("2/3x3"), Error);
}

// 32 -> 16 -> 8; odd sides round up.
TEST(Cct, PoolsHalveTheImage) {
  EXPECT_EQ(CctConfig{}.side(), 8);
  EXPECT_EQ((CctConfig{.image_size = 9}.side()), 3);
  EXPECT_EQ((CctConfig{.image_size = 1}.side()), 1);
}

}  // namespace
}  // namespace trireme
