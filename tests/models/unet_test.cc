#include "models/unet.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "models/unet_diffusers.h"
#include "parallel/comm/local.h"
#include "parallel/run/engine.h"
#include "runtime/base/error.h"
#include "tests/support/tiny_unet.h"

namespace trireme {
namespace {

std::int64_t unet_parameters(std::string_view size) {
  return make_layout(build_unet(unet_config_for_size(size))).num_parameters;
}

// The published networks; diffusers counts the same for all five shapes.
TEST(Unet, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(unet_parameters("ddpm-cifar10"), 35746307);
  EXPECT_EQ(unet_parameters("sd1"), 859520964);
  EXPECT_EQ(unet_parameters("sd2"), 865910724);
  EXPECT_EQ(unet_parameters("cifar-tiny"), 454371);
  EXPECT_EQ(unet_parameters("cifar-small"), 2736099);
  EXPECT_THROW(unet_config_for_size("sd3"), Error);
}

TEST(Unet, NamesInFilesAreThoseOfDiffusers) {
  std::set<std::string> names;
  for (const HfTensor& tensor : unet_to_diffusers(unet_config_for_size("sd1"), 64).tensors) {
    for (const HfPart& part : tensor.parts) EXPECT_TRUE(names.insert(part.name).second) << part.name;
  }
  EXPECT_EQ(names.size(), 686u);  // of UNet2DConditionModel
  for (const char* name :
       {"conv_in.weight", "time_embedding.linear_2.bias", "down_blocks.0.resnets.1.time_emb_proj.weight",
        "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight",
        "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight",
        "down_blocks.1.resnets.0.conv_shortcut.weight", "down_blocks.2.downsamplers.0.conv.bias",
        "mid_block.attentions.0.transformer_blocks.0.ff.net.0.proj.weight", "mid_block.resnets.1.norm2.bias",
        "up_blocks.1.upsamplers.0.conv.weight", "up_blocks.3.attentions.2.proj_out.weight",
        "conv_norm_out.weight", "conv_out.bias"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(Unet, EveryUnitIsABlock) {
  const BlockList blocks = build_unet(testing::tiny_unet_config());
  std::vector<std::string> names;
  for (const auto& block : blocks) names.push_back(block->name());
  const std::vector<std::string> expected = {"conv_in",
                                             "down_blocks.0.0",
                                             "down_blocks.0.downsamplers.0",
                                             "down_blocks.1.0",
                                             "down_blocks.1.downsamplers.0",
                                             "down_blocks.2.0",
                                             "mid_block.0",
                                             "mid_block.1",
                                             "up_blocks.0.0",
                                             "up_blocks.0.1",
                                             "up_blocks.0.upsamplers.0",
                                             "up_blocks.1.0",
                                             "up_blocks.1.1",
                                             "up_blocks.1.upsamplers.0",
                                             "up_blocks.2.0",
                                             "up_blocks.2.1",
                                             "conv_out"};
  EXPECT_EQ(names, expected);
}

TEST(Unet, DecaySparesNormsAndBiases) {
  for (const auto& block : build_unet(testing::tiny_conditional_unet_config())) {
    for (const ParameterSpec& spec : block->parameters()) {
      EXPECT_EQ(spec.decay, spec.shape.rank() > 1) << block->full_name(spec);
    }
  }
}

TEST(Unet, RefusesShapesThatCannotBeBuilt) {
  const auto refused = [&](auto change) {
    UnetConfig config = testing::tiny_unet_config();
    change(config);
    EXPECT_THROW(build_unet(config), Error);
  };
  EXPECT_NO_THROW(build_unet(testing::tiny_unet_config()));
  refused([](UnetConfig& c) { c.widths.clear(); });
  refused([](UnetConfig& c) { c.widths[1] = 18; });  // four groups
  refused([](UnetConfig& c) { c.head_width = 5; });
  refused([](UnetConfig& c) { c.heads = 2; });  // beside head_width
  refused([](UnetConfig& c) { c.attention_levels = {3}; });
  refused([](UnetConfig& c) { c.layers = 0; });
  refused([](UnetConfig& c) { c.channels = 0; });
  refused([](UnetConfig& c) { c.norm_groups = 0; });
  refused([](UnetConfig& c) {  // too narrow for sines and cosines
    c.norm_groups = 2;
    c.widths[0] = 2;
  });
  refused([](UnetConfig& c) { c.condition_width = -1; });
}

/// The message of a step on images of this shape.
std::string refusal(const UnetConfig& config, const std::function<void(HostBatch&)>& change) {
  std::string message;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_unet(config), comm, {.global_batch = 2, .micro_batch = 2});
    const auto source = [&](std::int64_t first, std::int64_t count) {
      HostBatch batch = testing::unet_source(config, 0)(first, count);
      change(batch);
      return batch;
    };
    try {
      engine.step(source, 2, 0.1);
    } catch (const Error& error) {
      message = error.what();
    }
  });
  return message;
}

TEST(Unet, NamesTheInputsThatDoNotFit) {
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(refusal(testing::tiny_conditional_unet_config(),
                   [](HostBatch& batch) {
                     batch.condition_shape = {2, 14, 6};
                   }),
           "the condition [2, 14, 6] is not [B, L, 12]");
  contains(refusal(testing::tiny_unet_config(), [](HostBatch& batch) { batch.classes.clear(); }),
           "the batch has no classes");
  contains(refusal(testing::tiny_unet_config(), [](HostBatch& batch) { batch.timesteps.clear(); }),
           "the batch has no timesteps");
  contains(refusal(testing::tiny_unet_config(),
                   [](HostBatch& batch) {
                     batch.input_shape = {2, 3, 8, 8};
                   }),
           "are not images [B, H, W, 3]");
  contains(refusal(testing::tiny_unet_config(),
                   [](HostBatch& batch) {
                     batch.input_shape = batch.target_shape = {2, 2, 32, 3};
                   }),
           "an image of 1 x 16 cannot be halved");
}

void expect_learning(UnetConfig config) {
  config.dropout = 0.0f;
  run_local_ranks(1, [&](const std::shared_ptr<Communicator>& comm) {
    Engine engine(build_unet(config), comm, {.global_batch = 8, .micro_batch = 4});
    const BatchSource source = testing::unet_source(config, 0);
    const float first = engine.step(source, 8, 0.003).loss;
    for (int step = 0; step < 60; ++step) engine.step(source, 8, 0.003);
    EXPECT_LT(engine.step(source, 8, 0.003).loss, 0.3f * first);
    EXPECT_LT(engine.evaluate(source, 8, 8), 0.3f * first);
  });
}

TEST(Unet, Learns) {
  expect_learning(testing::tiny_unet_config());
  expect_learning(testing::tiny_conditional_unet_config());
}

}  // namespace
}  // namespace trireme
