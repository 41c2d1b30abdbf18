// Checks the tensor chunks that a job file requests.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// A key of the model with its value.
struct ModelExtent {
  const char* key;
  std::int64_t size;
};

/// Throws Error(kInvalidInput) if model.tensor_chunks is not a power of two that divides `width`, or is above
/// 1 with an odd number of `heads`.
void check_tensor_chunks(const ModelSection& model, const ModelExtent& heads, const ModelExtent& width);
/// Throws Error(kInvalidInput) if model.tensor_chunks does not divide `extent`.
void check_divided(const ModelSection& model, const ModelExtent& extent);

/// Throws Error(kInvalidInput) if parallel.tensor ranks cannot share the model's chunks and heads equally.
/// `config` must be filled in.
void check_tensor_ranks(const JobConfig& config);

/// ", 8 tensor chunks of the layers", or "" without chunks; part of ModelFamily::describe for families that
/// split only layers.
std::string layer_chunks_text(const ModelSection& model);

}  // namespace trireme
