#include "tests/support/layout_families.h"

#include <fmt/format.h>

#include <algorithm>

#include "models/bert.h"
#include "models/cct.h"
#include "models/llama.h"
#include "models/lstm.h"
#include "models/vit.h"
#include "runtime/base/error.h"
#include "runtime/data/masked_tokens.h"
#include "runtime/data/synthetic_tokens.h"
#include "tests/support/tiny_gpt.h"
#include "tests/support/tiny_resnet.h"
#include "tests/support/tiny_unet.h"
#include "tests/support/tiny_yolox.h"

namespace trireme::testing {
namespace {

using enum PipelineSchedule;
using enum ZeroStage;

constexpr std::int64_t kSeqLen = 9, kVocab = 37;  // of text
constexpr std::int64_t kPixels = 12, kClasses = 5;
constexpr int kChunks = 4;

const LlamaConfig kLlama{.layers = 3,
                         .hidden = 24,
                         .heads = 4,
                         .kv_heads = 2,
                         .ffn = 40,
                         .vocab = kVocab,
                         .seq_len = kSeqLen,
                         .rope_theta = 100.0};

LlamaConfig tied_llama() {
  LlamaConfig config = kLlama;
  config.tied = true;
  return config;
}

LlamaConfig tiny_qwen2() {
  LlamaConfig config = tied_llama();
  config.head_width = 10, config.qkv_bias = true;
  return config;
}

LlamaConfig tiny_qwen3() {
  LlamaConfig config = kLlama;
  config.head_width = 10, config.qk_norm = QkNorm::kHead;
  return config;
}

/// Logits in parts of five rows and of four.
LlamaConfig llama_in_loss_parts(bool tied) {
  LlamaConfig config = kLlama;
  config.tied = tied, config.loss_parts = 2;
  return config;
}

/// OLMo 3, with windows of 4 tokens and a full layer.
LlamaConfig tiny_olmo() {
  LlamaConfig config = kLlama;
  config.qk_norm = QkNorm::kWhole, config.norm_position = NormPosition::kAfter, config.window = 4,
  config.layer_pattern = "wf";
  return config;
}

/// With all switches of Gemma 3.
LlamaConfig tiny_gemma() {
  LlamaConfig config = tied_llama();
  config.head_width = 10, config.qk_norm = QkNorm::kHead;
  config.norm_position = NormPosition::kBoth, config.norm_unit_offset = true;
  config.mlp_gate = MlpGate::kGelu, config.embedding_scale = 4.9, config.query_scalar = 7.0;
  config.window = 4, config.layer_pattern = "wwf", config.rope_local_theta = 10.0;
  return config;
}

LayoutFamily llama(std::string name, const LlamaConfig& config) {
  return {.name = std::move(name),
          .build = [config] { return build_llama(config); },
          .sample = {.input = {kSeqLen}, .target = {kSeqLen}},
          .batches = [](std::int64_t first) { return token_source(kVocab, kSeqLen, first); },
          .targets_of_sample = kSeqLen,
          .steps = 4};
}

LayoutFamily lstm(bool tied) {
  return {.name = tied ? "lstm_tied" : "lstm",
          .build =
              [tied] {
                return build_lstm({.layers = 3,
                                   .hidden = 24,
                                   .embedding_size = tied ? 24 : 13,
                                   .vocab = kVocab,
                                   .seq_len = kSeqLen,
                                   .dropout = 0.1f,
                                   .tied = tied});
              },
          .sample = {.input = {kSeqLen}, .target = {kSeqLen}},
          .batches = [](std::int64_t first) { return token_source(kVocab, kSeqLen, first); },
          .targets_of_sample = kSeqLen,
          .steps = 4};
}

/// The head computes the tokens that have targets.
LayoutFamily bert() {
  const auto tokens = std::make_shared<SyntheticTokens>(SyntheticTokens::Options{
      .num_samples = 16, .sequence_length = kSeqLen, .vocab_size = kVocab, .seed = 1});
  const auto data = std::make_shared<MaskedTokens>(MaskedTokens::Options{
      .tokens = tokens, .seed = 2, .probability = 0.15, .mask_token = kVocab - 1, .vocab_size = kVocab});
  return {.name = "bert",
          .build =
              [] {
                return build_bert({.layers = 3,
                                   .hidden = 24,
                                   .heads = 4,
                                   .vocab = kVocab,
                                   .seq_len = kSeqLen,
                                   .dropout = 0.1f});
              },
          .sample = {.input = {kSeqLen},
                     .target = {kSeqLen},
                     .target_positions = MaskedTokens::num_targets(kSeqLen, 0.15)},
          .batches =
              [data](std::int64_t first) {
                return [data, first](std::int64_t sample, std::int64_t count) {
                  return data->read_train(first + sample, count);
                };
              },
          .targets = [data](std::int64_t first) { return data->num_train_targets(first, kFamilyBatch); },
          .targets_of_sample = kSeqLen,
          .steps = 4};
}

LayoutFamily of_images(std::string name, std::function<BlockList()> build, int chunks) {
  return {.name = std::move(name),
          .build = std::move(build),
          .sample = {.input = {kPixels, kPixels, 3}, .input_dtype = DType::kFloat32, .target = {}},
          .batches = [](std::int64_t first) { return image_source(kPixels, kClasses, first); },
          .tensor_chunks = chunks};
}

BlockList tiny_vit(TokenPool pool, int chunks, float dropout) {
  return build_vit({.layers = 3,
                    .hidden = 24,
                    .heads = 4,
                    .ffn = 40,
                    .patch = 4,
                    .image_size = kPixels,
                    .classes = kClasses,
                    .pool = pool,
                    .dropout = dropout,
                    .stochastic_depth = 5 * dropout,
                    .label_smoothing = 0.1f,
                    .tensor_chunks = chunks});
}

BlockList tiny_cct(int chunks, float dropout) {
  return build_cct({.layers = 3,
                    .hidden = 24,
                    .heads = 4,
                    .ffn = 24,
                    .image_size = kPixels,
                    .classes = kClasses,
                    .dropout = dropout,
                    .stochastic_depth = 5 * dropout,
                    .tensor_chunks = chunks});
}

LayoutFamily vit(std::string name, TokenPool pool, int chunks = 1) {
  return of_images(
      std::move(name), [=] { return tiny_vit(pool, chunks, 0.1f); }, chunks);
}

LayoutFamily cct(std::string name, int chunks = 1) {
  return of_images(
      std::move(name), [=] { return tiny_cct(chunks, 0.1f); }, chunks);
}

LayoutFamily unet(std::string name, const UnetConfig& config) {
  return {.name = std::move(name),
          .build = [config] { return build_unet(config); },
          .sample = unet_sample_spec(config),
          .batches = [config](std::int64_t first) { return unet_source(config, first); }};
}

LayoutFamily yolox() {
  const YoloxConfig config = tiny_yolox_config(false);
  return {.name = "yolox",
          .build = [config] { return build_yolox_with_loss(config); },
          .sample = yolox_sample_spec(config),
          .batches = [config](std::int64_t first) { return yolox_source(config, first); },
          .has_fp8 = false};
}

/// The number of foreground anchors varies from sample to sample, and is known after the forward only.
LayoutFamily yolox_detector() {
  const YoloxConfig config = tiny_yolox_config(true);
  return {.name = "yolox_detector",
          .build = [config] { return build_yolox_detector(config); },
          .sample = yolox_detector_sample_spec(config),
          .batches = [config](std::int64_t first) { return yolox_detector_source(config, first); },
          .has_fp8 = false};
}

const std::vector<RankedLayout> kCommon = {
    {.ranks = 2},
    {.threads = 3},
    {.ranks = 4, .layout = {.zero = kOptimizer, .recompute_every = 1}},
    {.ranks = 4, .layout = {.zero = kGradients}},
    {.ranks = 4, .layout = {.zero = kParameters, .recompute_every = 2}},
    {.ranks = 2, .layout = {.pipeline = 2, .schedule = kGpipe}},
    {.ranks = 4, .layout = {.pipeline = 2, .zero = kParameters}},
    {.ranks = 2, .layout = {.pipeline = 2, .schedule = kInterleaved, .chunks = 2, .recompute_every = 1}},
    {.ranks = 4, .layout = {.pipeline = 2, .schedule = kZeroBubbleH1, .zero = kGradients}}};

const std::vector<RankedLayout> kTensor = {
    {.ranks = 2, .layout = {.zero = kParameters}},
    {.ranks = 4, .layout = {.tensor = 4}},
    {.ranks = 4, .layout = {.tensor = 2, .zero = kGradients, .recompute_every = 2}},
    {.ranks = 4, .layout = {.tensor = 2, .pipeline = 2, .recompute_every = 1}},
    {.ranks = 8, .layout = {.tensor = 4, .zero = kParameters}},
    {.ranks = 4, .layout = {.tensor = 2, .pipeline = 2, .schedule = kZeroBubbleH1}}};

}  // namespace

std::string RankedLayout::to_string() const {
  return fmt::format("{} ranks x {} threads: {}", ranks, threads, to_text(layout));
}

std::span<const RankedLayout> common_layouts() {
  return kCommon;
}

std::span<const RankedLayout> tensor_layouts() {
  return kTensor;
}

const std::vector<LayoutFamily>& layout_families() {
  static const std::vector<LayoutFamily> families = {llama("llama", kLlama),
                                                     llama("llama_tied", tied_llama()),
                                                     llama("qwen2", tiny_qwen2()),
                                                     llama("qwen3", tiny_qwen3()),
                                                     llama("olmo3", tiny_olmo()),
                                                     llama("gemma3", tiny_gemma()),
                                                     llama("llama_parts", llama_in_loss_parts(false)),
                                                     llama("llama_tied_parts", llama_in_loss_parts(true)),
                                                     lstm(false),
                                                     lstm(true),
                                                     bert(),
                                                     vit("vit", TokenPool::kClassToken),
                                                     vit("vit_mean", TokenPool::kMean),
                                                     cct("cct"),
                                                     unet("unet", tiny_unet_config()),
                                                     unet("unet_condition", tiny_conditional_unet_config()),
                                                     yolox(),
                                                     yolox_detector(),
                                                     vit("vit_chunks", TokenPool::kClassToken, kChunks),
                                                     cct("cct_chunks", kChunks)};
  return families;
}

const LayoutFamily& layout_family(std::string_view name) {
  const auto found = std::ranges::find(layout_families(), name, &LayoutFamily::name);
  TRIREME_CHECK(found != layout_families().end(), "no family {}", name);
  return *found;
}

BlockList vit_without_dropout(int chunks) {
  return tiny_vit(TokenPool::kClassToken, chunks, 0.0f);
}

BlockList cct_without_dropout(int chunks) {
  return tiny_cct(chunks, 0.0f);
}

RunOutcome run_family(const LayoutFamily& family, PrecisionMode mode, const RankedLayout& on,
                      std::function<void(const StepResult&, std::int64_t targets)> look) {
  EngineOptions options{.threads = on.threads,
                        .global_batch = kFamilyBatch,
                        .micro_batch = 1,
                        .seed = 3,
                        .optimizer = {.weight_decay = 0.1f},
                        .rules = family.rules,
                        .grad_clip = 0.5f,
                        .layout = on.layout,
                        .sample = family.sample,
                        .precision = Precision(mode)};
  if (mode == PrecisionMode::kFp16) options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
  const auto all_targets = [&](std::int64_t) { return kFamilyBatch * family.targets_of_sample; };
  return run_as_predicted({.blocks = std::make_shared<const BlockList>(family.build()),
                           .options = options,
                           .ranks = on.ranks,
                           .steps = family.steps,
                           .batches = family.batches,
                           .targets = family.targets ? family.targets : all_targets,
                           .targets_of_sample = family.targets_of_sample,
                           .look = std::move(look)},
                          on.to_string());
}

}  // namespace trireme::testing
