// Writes the adapters of a model as a folder that Hugging Face's PEFT loads: adapter_config.json and
// adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/merged_model.h"
#include "runtime/checkpoint/pending_folder.h"

namespace trireme {

inline constexpr const char* kPeftConfigFile = "adapter_config.json";
inline constexpr const char* kPeftModelFile = "adapter_model.safetensors";

struct PeftModel {
  const HfModel& hf;  // the model without adapters
  const SavedAdapters& adapters;
  std::vector<std::string> trained_whole;  // other trained tensors: PEFT's modules_to_save
  std::string base;                        // base_model_name_or_path; empty: unknown
};

/// Names follow PEFT: "base_model.model." before the names of transformers. If a packed weight is several
/// layers in transformers, each gets all of A, and its rows of B. The folder appears atomically. Throws the
/// same errors as write_hf_folder().
void write_peft_folder(const SafetensorsReader& tensors, const PeftModel& model, DType dtype,
                       const FolderPlace& place);

}  // namespace trireme
