// Shared code of token model families.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// Throws Error(kInvalidInput) if a model has neither a size nor layers, width, heads and context length.
void check_has_shape(const ModelSection& model);

/// ", 8 tensor chunks", with a note if the vocabulary is not split; "" without chunks. Part of
/// ModelFamily::describe.
std::string chunks_text(const ModelSection& model);

/// Throws Error(kInvalidInput) for model.loss_parts above 1 with a vocabulary in tensor chunks.
void check_loss_parts(const ModelSection& model);

/// ", tied" or ", untied", and the loss parts: ModelFamily::variant.
std::string tied_variant(const ModelSection& model);

}  // namespace trireme
