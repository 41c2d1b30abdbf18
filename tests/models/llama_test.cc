#include "models/llama.h"

#include <gtest/gtest.h>

#include "parallel/layout/model_layout.h"
#include "runtime/base/error.h"

namespace trireme {
namespace {

std::int64_t parameters_of(std::string_view size) {
  return make_layout(build_llama(llama_config_for_size(size))).num_parameters;
}

// Counted from the published checkpoints.
TEST(Llama, HasThePublishedNumberOfParameters) {
  EXPECT_EQ(parameters_of("15m"), 15191712);
  EXPECT_EQ(parameters_of("1b"), 1235814400);
  EXPECT_EQ(parameters_of("3b"), 3212749824);
  EXPECT_EQ(parameters_of("8b"), 8030261248);
}

TEST(Llama, HasThePublishedNumberOfParametersOfOtherModels) {
  const auto parameters = [](const LlamaConfig& config) {
    return make_layout(build_llama(config)).num_parameters;
  };
  const LlamaConfig nemo{
      .layers = 40, .hidden = 5120, .heads = 32, .head_width = 128, .ffn = 14336, .vocab = 131072};
  EXPECT_EQ(parameters(nemo), 12247782400) << "Mistral Nemo";
  const LlamaConfig qwen{.layers = 24,
                         .hidden = 896,
                         .heads = 14,
                         .kv_heads = 2,
                         .ffn = 4864,
                         .vocab = 151936,
                         .qkv_bias = true,
                         .tied = true};
  EXPECT_EQ(parameters(qwen), 494032768) << "Qwen2.5 0.5B";
  const LlamaConfig qwen3{.layers = 28,
                          .hidden = 1024,
                          .heads = 16,
                          .head_width = 128,
                          .ffn = 3072,
                          .vocab = 151936,
                          .qk_norm = QkNorm::kHead,
                          .tied = true};
  EXPECT_EQ(parameters(qwen3), 596049920) << "Qwen3 0.6B";
  const LlamaConfig mistral{
      .layers = 32, .hidden = 4096, .heads = 32, .ffn = 14336, .vocab = 32000, .window = 4096};
  EXPECT_EQ(parameters(mistral), 7241732096) << "Mistral 7B v0.1";
  const LlamaConfig smol{.layers = 36,
                         .hidden = 2048,
                         .heads = 16,
                         .kv_heads = 4,
                         .ffn = 11008,
                         .vocab = 128256,
                         .layer_pattern = "fffn",
                         .tied = true};
  EXPECT_EQ(parameters(smol), 3075098624) << "SmolLM3 3B";
  const LlamaConfig olmo{.layers = 16,
                         .hidden = 2048,
                         .heads = 16,
                         .kv_heads = 16,
                         .ffn = 8192,
                         .vocab = 100352,
                         .qk_norm = QkNorm::kWhole,
                         .norm_position = NormPosition::kAfter};
  EXPECT_EQ(parameters(olmo), 1484916736) << "OLMo 2 1B";
  const LlamaConfig gemma{.layers = 26,
                          .hidden = 1152,
                          .heads = 4,
                          .kv_heads = 1,
                          .head_width = 256,
                          .ffn = 6912,
                          .vocab = 262144,
                          .qk_norm = QkNorm::kHead,
                          .norm_position = NormPosition::kBoth,
                          .norm_unit_offset = true,
                          .window = 512,
                          .layer_pattern = "wwwwwf",
                          .tied = true};
  EXPECT_EQ(parameters(gemma), 999885952) << "Gemma 3 1B";
}

TEST(Llama, DefaultWidthOfTheMlp) {
  EXPECT_EQ(default_llama_ffn(384), 1024);
  EXPECT_EQ(default_llama_ffn(4096), 10944);
  EXPECT_EQ(default_llama_ffn(1), 64);
}

TEST(Llama, RefusesWhatCannotBeBuilt) {
  const LlamaConfig tiny{
      .layers = 1, .hidden = 24, .heads = 4, .kv_heads = 2, .ffn = 8, .vocab = 5, .seq_len = 4};
  EXPECT_NO_THROW(build_llama(tiny));
  const auto refused = [&](auto change) {
    LlamaConfig config = tiny;
    change(config);
    EXPECT_THROW(build_llama(config), Error);
  };
  refused([](LlamaConfig& c) { c.heads = 5; });
  refused([](LlamaConfig& c) { c.kv_heads = 3; });
  refused([](LlamaConfig& c) { c.hidden = 12; });  // head width 3
  refused([](LlamaConfig& c) { c.head_width = 5; });
  refused([](LlamaConfig& c) { c.head_width = -6; });
  refused([](LlamaConfig& c) { c.qk_norm = QkNorm::kWhole, c.tensor_chunks = 2; });
  refused([](LlamaConfig& c) { c.layer_pattern = "fx"; });
  refused([](LlamaConfig& c) { c.layer_pattern = "fw"; });
  refused([](LlamaConfig& c) { c.window = -1; });
  refused([](LlamaConfig& c) { c.ffn = 0; });
  refused([](LlamaConfig& c) { c.layers = 2000000000; });
  refused([](LlamaConfig& c) { c.rope_theta = 0; });
  EXPECT_THROW(llama_config_for_size("124m"), Error);
}

}  // namespace
}  // namespace trireme
