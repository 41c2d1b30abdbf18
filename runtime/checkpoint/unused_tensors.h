// Tensors of a file that a model does not take, compared with what it takes or computes instead.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/safetensors_folder.h"

namespace trireme {

/// Throws TensorMismatch naming the file, both tensors and the first element that differs, unless both are
/// equal. `can_be_untied`: the family has models with both, which the message names then.
void check_copy(const SafetensorsFolder::Found& copy, const SafetensorsFolder::Found& original,
                bool can_be_untied);

/// Throws TensorMismatch naming the file, the tensor and the first element that is not what is computed.
void check_derived(const SafetensorsFolder::Found& stored, const HfDerived& derived);

}  // namespace trireme
