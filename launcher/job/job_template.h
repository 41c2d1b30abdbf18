// Commented job files to start from. `trireme init` fills them in and writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "launcher/data/data_record.h"

namespace trireme {

enum class TemplateData : std::uint8_t {
  kText,      // data.kind = "tokens" or "chat"
  kClasses,   // "images", with a class to predict
  kPictures,  // "images", with noise to remove
  kBoxes,     // "detection", with objects to find
};

struct JobTemplate {
  std::string_view name;     // the argument of `trireme init`
  std::string_view purpose;  // "train a GPT on text"
  std::string_view shape;    // keys of [model] for a model from scratch; empty: needs a pretrained model
  std::span<const std::string_view> pretrained;  // names of the models that --from takes
  TemplateData data = TemplateData::kText;
  bool trains_adapters = false;
  bool uses_momentum = false;    // SGD with Nesterov momentum; false: AdamW
  double lr = 2e-3;              // from scratch
  double fine_tuning_lr = 1e-4;  // from pretrained weights
};

std::span<const JobTemplate> job_templates();

struct TemplateValues {
  std::string pretrained;                           // a folder in Hugging Face's format; empty: from scratch
  std::string train, eval;                          // data.train and data.eval; eval may be empty
  std::string train_annotations, eval_annotations;  // of kBoxes; empty: texts beside the pictures
  bool has_conversations = false;                   // train was written by `trireme data chat`
  std::int64_t classes = 0;    // model.classes; with `pretrained`, of a new head. 0: follows from the rest
  bool class_dropout = false;  // the last class stands for "no class"
  std::int64_t seq_len = 0;    // model.seq_len of `pretrained`; 0: its context
  std::optional<ImageRecord> normalisation;  // of `pretrained`
  std::int64_t micro_batch = 16;             // divides kTemplateBatch
  bool sixteen_bits = false;                 // precision.mode = "bf16"
};

inline constexpr std::int64_t kTemplateBatch = 32;  // train.global_batch

/// The TOML text of a job, which parse_config() accepts.
std::string job_text(const JobTemplate& job, const TemplateValues& values);

}  // namespace trireme
