// Checks tensors of a file that a model does not load against the values that it uses instead.
#pragma once

#include <filesystem>

#include "runtime/checkpoint/hf_model.h"
#include "runtime/checkpoint/safetensors_folder.h"

namespace trireme {

/// Throws TensorMismatch naming the file, both tensors and the first different element, unless both are
/// equal. `can_be_untied`: the family also has untied models, which the message mentions.
void check_copy(const SafetensorsFolder::Found& copy, const SafetensorsFolder::Found& original,
                bool can_be_untied);

/// Throws TensorMismatch naming the file, the tensor and the first element that differs from its expected
/// value.
void check_derived(const SafetensorsFolder::Found& stored, const HfDerived& derived);

}  // namespace trireme
