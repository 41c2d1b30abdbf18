// What families of transformers of images have in common.
#pragma once

#include <string>

#include "launcher/config/config.h"

namespace trireme {

/// Of model.size, where a job does not say.
struct PublishedShape {
  std::int64_t hidden, heads;
};

/// Throws Error(kInvalidInput) where a model has neither a size nor layers, width and heads, where the heads
/// do not divide the width, and where model.tensor_chunks does not divide the heads.
void check_image_shape(const ModelSection& model, const PublishedShape& published);

/// Gives model.image_size and data.image_size, of which a job may leave one to the other, or both to what was
/// `published`. Throws Error(kInvalidInput) where they differ: the positions are made for one size.
void fill_in_image_size(JobConfig& config, std::int64_t published);

/// "12 layers, 768 wide, 12 heads, MLP 3072, 1000 classes" and tensor chunks: part of ModelFamily::describe.
std::string image_transformer_text(const ModelSection& model);

}  // namespace trireme
