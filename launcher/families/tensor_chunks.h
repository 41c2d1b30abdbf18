// The tensor chunks of a model, as a job file asks for them.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// A key of the model and its value.
struct ModelExtent {
  const char* key;
  std::int64_t size;
};

/// Throws Error(kInvalidInput) where model.tensor_chunks is no power of two that divides `width`, or more
/// than 1 where `heads` is odd.
void check_tensor_chunks(const ModelSection& model, const ModelExtent& heads, const ModelExtent& width);
/// Throws Error(kInvalidInput) where model.tensor_chunks does not divide `extent`.
void check_divided(const ModelSection& model, const ModelExtent& extent);

/// Throws Error(kInvalidInput) where parallel.tensor ranks cannot share the model's chunks and heads equally.
/// `config` is filled in.
void check_tensor_ranks(const JobConfig& config);

/// ", 8 tensor chunks of the layers", or "" without: part of ModelFamily::describe where nothing else is cut.
std::string layer_chunks_text(const ModelSection& model);

}  // namespace trireme
