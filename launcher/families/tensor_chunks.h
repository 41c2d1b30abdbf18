// The tensor chunks of a model, as a job file asks for them.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// Throws Error(kInvalidInput) where model.tensor_chunks is no power of two that divides `number` of
/// model.`key`.
void check_tensor_chunks(const ModelSection& model, const char* key, std::int64_t number);

/// ", 8 tensor chunks of the layers", or "" without: part of ModelFamily::describe where nothing else is cut.
std::string layer_chunks_text(const ModelSection& model);

}  // namespace trireme
