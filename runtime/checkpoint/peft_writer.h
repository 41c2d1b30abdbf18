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
  const HfModel& hf;  // of the model without adapters
  const SavedAdapters& adapters;
  std::vector<std::string> trained_whole;  // other tensors that were trained: PEFT's modules_to_save
  std::string base;                        // base_model_name_or_path; empty: not known
};

/// Names are PEFT's, "base_model.model." in front of the names of transformers. Of a packed weight that is
/// several layers there, each has the A of all, and its rows of B. The folder appears whole. Throws as
/// write_hf_folder() does.
void write_peft_folder(const SafetensorsReader& tensors, const PeftModel& model, DType dtype,
                       const FolderPlace& place);

}  // namespace trireme
