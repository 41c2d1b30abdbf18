// Small models in tensor chunks, and layouts to train them on, for tests of the tensor axis.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "models/gpt.h"
#include "models/llama.h"
#include "tests/support/predicted_run.h"
#include "tests/support/tiny_gpt.h"

namespace trireme::testing {

struct TensorLayout {
  int tensor = 1, data = 1, zero = 0, recompute = 0;
  Layout pipeline;
  Recompute inside = Recompute::kNone;
  bool sequence = false;
  std::int64_t micro_batch = 0;  // 0: the job's

  Layout whole() const {
    Layout all = pipeline;
    all.tensor = tensor;
    all.sequence = sequence;
    all.zero = static_cast<ZeroStage>(zero);
    all.accumulate_unsharded = data == 3 && zero > 1;  // uneven shares
    all.recompute_every = recompute;
    all.recompute = inside;
    return all;
  }
  int ranks() const { return tensor * data * pipeline.pipeline; }
  std::string to_string() const {
    return fmt::format(
        "{} tensor ranks{} x {} data ranks x {} stages of {} chunk(s), {}, zero {}, recompute {}, {}, "
        "micro-batches of "
        "{} (0: as usual)",
        tensor, sequence ? " that share the sequence" : "", data, pipeline.pipeline, pipeline.chunks,
        name(pipeline.schedule), zero, recompute, name(inside), micro_batch);
  }
};

/// The blocks of a model, with or without tied weights.
using BuildModel = std::function<BlockList(bool tied)>;

/// The training job for such a model: tokens from a formula, a few steps.
struct ChunkedJob {
  static constexpr std::int64_t kVocab = 40;
  static constexpr int kChunks = 8, kMaxRanks = 8;
  std::int64_t global_batch, micro_batch, steps, seq_len;

  GptConfig gpt(bool tied, int chunks = kChunks) const {
    return {.layers = 4,
            .hidden = 32,
            .heads = 8,
            .vocab = kVocab,
            .seq_len = seq_len,
            .dropout = 0.1f,
            .tied = tied,
            .tensor_chunks = chunks};
  }

  LlamaConfig llama(bool tied) const {
    return {.layers = 4,
            .hidden = 32,
            .heads = 16,
            .kv_heads = 8,
            .ffn = 40,
            .vocab = kVocab,
            .seq_len = seq_len,
            .rope_theta = 100.0,
            .tied = tied,
            .tensor_chunks = kChunks};
  }

  /// Biases of the projections, and heads that are not as wide together as the residual stream.
  BuildModel qwen2() const {
    return llama_with([](LlamaConfig& config) { config.head_width = 6, config.qkv_bias = true; });
  }
  BuildModel qwen3() const {
    return llama_with([](LlamaConfig& config) { config.head_width = 6, config.qk_norm = QkNorm::kHead; });
  }
  BuildModel gemma3() const {
    return llama_with([](LlamaConfig& config) {
      config.qk_norm = QkNorm::kHead;
      config.norm_position = NormPosition::kBoth, config.norm_unit_offset = true;
      config.mlp_gate = MlpGate::kGelu, config.embedding_scale = 4.9;
      config.window = 3, config.layer_pattern = "wf", config.rope_local_theta = 10.0;
    });
  }
  BuildModel post_norm_decoder() const {
    return llama_with([](LlamaConfig& config) { config.norm_position = NormPosition::kAfter; });
  }
  BuildModel llama_with(const std::function<void(LlamaConfig&)>& change) const {
    return [job = *this, change](bool tied) {
      LlamaConfig config = job.llama(tied);
      change(config);
      return build_llama(config);
    };
  }

  EngineOptions options(PrecisionMode mode, const TensorLayout& layout) const {
    return options(Precision(mode), layout);
  }

  EngineOptions options(const Precision& precision, const TensorLayout& layout) const {
    EngineOptions options{.global_batch = global_batch,
                          .micro_batch = layout.micro_batch > 0 ? layout.micro_batch : micro_batch,
                          .seed = 5,
                          .optimizer = {.weight_decay = 0.1f},
                          .grad_clip = 0.5f,
                          .layout = layout.whole(),
                          .sample = SampleSpec{.input = {seq_len}, .target = {seq_len}},
                          .precision = precision};
    if (precision.mode() == PrecisionMode::kFp16)
      options.loss_scale = {.kind = LossScaleConfig::Kind::kDynamic};
    return options;
  }

  void train(Engine& engine, std::int64_t to_step) const {
    while (engine.steps_done() < to_step) {
      const std::int64_t first = engine.steps_done() * global_batch;
      engine.step(token_source(kVocab, seq_len, first), global_batch * seq_len, 1e-2);
    }
  }

  /// Also checks memory and traffic against their prediction.
  RunOutcome run(const BuildModel& build, PrecisionMode mode, bool tied, const TensorLayout& layout,
                 const ParameterRules& rules = {}) const {
    return run(build, Precision(mode), tied, layout, rules);
  }

  RunOutcome run(const BuildModel& build, const Precision& precision, bool tied, const TensorLayout& layout,
                 const ParameterRules& rules = {}) const {
    EngineOptions engine_options = options(precision, layout);
    engine_options.rules = rules;
    return run_as_predicted(
        {.blocks = std::make_shared<const BlockList>(build(tied)),
         .options = engine_options,
         .ranks = layout.ranks(),
         .steps = steps,
         .batches = [length = seq_len](std::int64_t first) { return token_source(kVocab, length, first); },
         .targets = [count = global_batch * seq_len](std::int64_t) { return count; },
         .targets_of_sample = seq_len},
        layout.to_string());
  }
};

/// Every precision, with and without tied weights, and a name for each.
using PrecisionAndTied = std::tuple<PrecisionMode, bool>;
inline auto precisions_tied_or_not() {
  return ::testing::Combine(::testing::Values(PrecisionMode::kFp32, PrecisionMode::kTf32,
                                              PrecisionMode::kFp16, PrecisionMode::kBf16),
                            ::testing::Bool());
}
inline std::string precision_and_tied_name(const ::testing::TestParamInfo<PrecisionAndTied>& info) {
  return fmt::format("{}_{}", name(std::get<0>(info.param)), std::get<1>(info.param) ? "tied" : "untied");
}

}  // namespace trireme::testing
