// Writes a model as a folder that Hugging Face's transformers loads.
#pragma once

#include <filesystem>
#include <functional>

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/merged_model.h"
#include "runtime/checkpoint/pending_folder.h"

namespace trireme {

/// Writes config.json and model.safetensors from `tensors`, an fp32 file with our names, with adapters
/// merged, one strip of a tensor at a time. The folder appears atomically: it is filled under a hidden name
/// in the same parent. Throws Error(kInvalidInput) if the folder exists (see PendingFolder), if a tensor is
/// missing or has another shape, and if `dtype` cannot hold a number. Throws Error(kRuntime) for disk
/// failures. `progress` is called before each tensor with the fraction of the tensors that are written.
void write_hf_folder(const MergedModel& tensors, const HfModel& model, DType dtype, const FolderPlace& place,
                     const std::function<void(double done)>& progress = {});

}  // namespace trireme
