// Commented job files to start from. `trireme init` fills them in and writes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

struct JobTemplate {
  std::string_view name;       // the argument of `trireme init`
  std::string_view purpose;    // "train a GPT on text"
  std::string_view shape;      // keys of [model] for a model from scratch; empty: needs a pretrained model
  bool trains_images = false;  // data.kind = "images", else "tokens" or "chat"
  bool trains_adapters = false;
  double lr = 2e-3;              // from scratch
  double fine_tuning_lr = 1e-4;  // from pretrained weights
};

std::span<const JobTemplate> job_templates();

struct TemplateValues {
  std::string pretrained;          // a folder of Hugging Face's transformers; empty: from scratch
  std::string train, eval;         // data.train and data.eval; eval may be empty
  bool has_conversations = false;  // train was written by `trireme data chat`
  std::int64_t micro_batch = 16;   // divides kTemplateBatch
  bool sixteen_bits = false;       // precision.mode = "bf16"
};

inline constexpr std::int64_t kTemplateBatch = 32;  // train.global_batch

/// The TOML text of a job, which parse_config() accepts.
std::string job_text(const JobTemplate& job, const TemplateValues& values);

}  // namespace trireme
