// What families of models over tokens have in common.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// Throws Error(kInvalidInput) where a model has neither a size nor layers, width, heads and context.
void check_has_shape(const ModelSection& model);

/// ", 8 tensor chunks", and whether the vocabulary is whole all the same; "" without chunks: part of
/// ModelFamily::describe.
std::string chunks_text(const ModelSection& model);

/// ", tied" or ", untied": ModelFamily::variant.
std::string tied_variant(const ModelSection& model);

}  // namespace trireme
