// Writes a model as a folder that Hugging Face's transformers loads.
#pragma once

#include <filesystem>

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/merged_model.h"
#include "runtime/checkpoint/pending_folder.h"

namespace trireme {

/// Writes config.json and model.safetensors from `tensors`, a file of our names in fp32, adapters merged, a
/// strip of a tensor at a time. The folder appears whole: it is filled beside its place under a hidden name.
/// Throws Error(kInvalidInput) where the place is taken (see PendingFolder), where a tensor is missing or
/// has another shape, and where `dtype` cannot hold a number; Error(kRuntime) when the disk refuses.
void write_hf_folder(const MergedModel& tensors, const HfModel& model, DType dtype, const FolderPlace& place);

}  // namespace trireme
